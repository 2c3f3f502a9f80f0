//! Placement against a list that is sorted anew at every question, against the paper's ARC, and on
//! a workload that tells the rules apart.

mod model;
mod paper_arc;
mod scans;

use proptest::prelude::*;
use proptest::sample::select;

use super::{Placement, PlacementRule, Retention};
use model::Model;

/// What is done; `pick` chooses among the entries that it can be done to.
#[derive(Clone, Copy, Debug)]
enum Action {
    Add,
    AddHeld,
    Hold,
    Release,
    Retain,
    Withdraw,
    Remove,
    /// Content is asked for: a hit is used and released, a miss makes room where it is admitted.
    Ask,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    action: Action,
    pick: usize,
    content: u64,
    retention: Retention,
    now_ms: u64,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Action::{Add, AddHeld, Ask, Hold, Release, Remove, Retain, Withdraw};
    let actions = vec![
        Add, AddHeld, Hold, Hold, Release, Release, Retain, Withdraw, Remove, Ask, Ask, Ask, Ask,
    ];
    let priority = select(vec![0, 35, 35, 35, 35, 80, 100]);
    let expires_ms = prop::option::weighted(0.3, 0..600_u64);
    let one = (select(actions), 0..64_usize, 0..20_u64, priority, expires_ms);
    prop::collection::vec((one, 0..5_u64), 1..200).prop_map(|drawn| {
        let mut now_ms = 0;
        let operation = |((action, pick, content, priority, expires_ms), passed_ms)| {
            now_ms += passed_ms;
            let retention = Retention { priority, expires_ms };
            // A caller whose clock is a little behind changes nothing.
            let now_ms = if pick == 0 { now_ms / 2 } else { now_ms };
            Operation { action, pick, content, retention, now_ms }
        };
        drawn.into_iter().map(operation).collect()
    })
}

/// The level and its model, which are always asked the same.
struct Pair {
    placement: Placement<u32>,
    model: Model,
    capacity: usize,
    next_key: u32,
}

/// Runs the operations through both; every answer must be the same, and the whole order after each.
fn check(rule: PlacementRule, capacity: usize, operations: &[Operation]) {
    let (placement, model) = (Placement::new(rule, capacity), Model::new(rule, capacity));
    let mut pair = Pair { placement, model, capacity, next_key: 0 };
    for operation in operations {
        pair.run(*operation);
        pair.placement.check();
        pair.compare(operation.now_ms);
    }
}

impl Pair {
    fn run(&mut self, operation: Operation) {
        let Operation { action, pick, content, retention, now_ms } = operation;
        let keys = match action {
            Action::Release => self.model.keys(|entry| entry.idle_since.is_none()),
            Action::Ask => self.model.keys(|entry| entry.content == content),
            _ => self.model.keys(|_| true),
        };
        let key = keys.get(pick % keys.len().max(1)).copied();
        match (action, key) {
            (Action::Add, _) => self.add(content, retention),
            (Action::AddHeld, _) => {
                self.placement.add_held(self.next_key, content, retention);
                self.model.add_held(self.next_key, content, retention);
                self.next_key += 1;
            }
            (Action::Ask, None) => self.miss(content, retention, now_ms),
            (Action::Ask, Some(key)) => {
                self.hold(key);
                self.release(key);
            }
            (Action::Hold, Some(key)) => self.hold(key),
            (Action::Release, Some(key)) => self.release(key),
            (Action::Retain, Some(key)) => {
                self.placement.retain(key, retention);
                self.model.retain(key, retention);
            }
            (Action::Withdraw, Some(key)) => {
                // One of those that count, most often.
                let claims = self.placement.claims(key);
                let claim = claims.iter().nth(pick % 3).unwrap_or(retention);
                self.placement.withdraw(key, claim);
                self.model.withdraw(key, claim);
            }
            (Action::Remove, Some(key)) => self.remove(key),
            (_, None) => {}
        }
    }

    fn miss(&mut self, content: u64, retention: Retention, now_ms: u64) {
        if self.capacity <= self.placement.len() {
            let is_admitted = self.placement.admits(content, retention, now_ms);
            assert_eq!(is_admitted, self.model.admits(content, retention, now_ms));
            if !is_admitted {
                return;
            }
            let victim = self.placement.victim(now_ms);
            assert_eq!(victim, self.model.order(now_ms).first().copied());
            victim.into_iter().for_each(|victim| self.remove(victim));
        }
        self.add(content, retention);
    }

    fn add(&mut self, content: u64, retention: Retention) {
        self.placement.add(self.next_key, content, retention);
        self.model.add(self.next_key, content, retention);
        self.next_key += 1;
    }

    fn hold(&mut self, key: u32) {
        self.placement.hold(key);
        self.model.hold(key);
    }

    fn release(&mut self, key: u32) {
        self.placement.release(key);
        self.model.release(key);
    }

    fn remove(&mut self, key: u32) {
        self.placement.remove(key);
        self.model.remove(key);
        assert!(!self.placement.contains(key) && !self.placement.is_idle(key));
    }

    fn compare(&mut self, now_ms: u64) {
        let (placement, keys) = (&mut self.placement, self.model.keys(|_| true));
        let order = self.model.order(now_ms);
        assert_eq!(placement.victim(now_ms), order.first().copied());
        assert_eq!(placement.oldest(now_ms, &|_| false, usize::MAX), order);
        let odd: Vec<u32> = order.iter().copied().filter(|key| key % 2 == 1).take(3).collect();
        assert_eq!(placement.oldest(now_ms, &|key| key % 2 == 0, 3), odd);
        placement.check();
        assert_eq!((placement.idle(), placement.len()), (order.len(), keys.len()));
        assert_eq!(placement.is_empty(), keys.is_empty());
        for key in keys {
            assert!(placement.contains(key));
            assert_eq!(placement.is_idle(key), order.contains(&key));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn lru_agrees_with_a_sorted_list(capacity in 0..9_usize, operations in operations()) {
        check(PlacementRule::Lru, capacity, &operations);
    }

    #[test]
    fn lfu_agrees_with_a_sorted_list(capacity in 0..9_usize, operations in operations()) {
        check(PlacementRule::TinyLfu, capacity, &operations);
    }

    #[test]
    fn arc_agrees_with_a_sorted_list(capacity in 0..9_usize, operations in operations()) {
        check(PlacementRule::Arc, capacity, &operations);
    }
}

const AT_ONCE: Retention = Retention { priority: 0, expires_ms: None };

#[test]
fn a_chain_released_last_page_first_leaves_last_page_first() {
    let mut placement = Placement::new(PlacementRule::Lru, 8);
    for page in 0..4_u32 {
        placement.add_held(page, u64::from(page), Retention::default());
    }
    (0..4).rev().for_each(|page| placement.release(page));
    // Raised and lowered again in another order, they keep their turns.
    for page in [2, 0, 3, 1] {
        placement.retain(page, Retention { priority: 90, expires_ms: Some(5) });
        placement.check();
    }
    assert_eq!(placement.oldest(0, &|_| false, 9), [3, 2, 1, 0]);
    for page in [1, 3, 0, 2] {
        placement.withdraw(page, Retention { priority: 90, expires_ms: Some(5) });
        placement.check();
    }
    assert_eq!(placement.oldest(0, &|_| false, 9), [3, 2, 1, 0]);
}

#[test]
fn new_content_of_a_lower_class_is_not_worth_the_victim() {
    for rule in PlacementRule::ALL {
        let mut placement = Placement::new(rule, 1);
        assert!(placement.admits(1, AT_ONCE, 0), "{rule}: nobody is idle");
        placement.add(1_u32, 1, Retention { priority: 35, expires_ms: Some(10) });
        assert!(!placement.admits(2, AT_ONCE, 9), "{rule}");
        assert!(placement.admits(3, Retention::default(), 9), "{rule}");
        assert!(placement.admits(2, AT_ONCE, 10), "{rule}: the victim has expired");
        let expired = Retention { priority: 100, expires_ms: Some(10) };
        assert!(placement.admits(4, expired, 10), "{rule}: both have");
        placement.check();
    }
}

#[test]
fn lfu_admits_what_was_asked_for_as_often_as_the_victim() {
    let mut placement = Placement::new(PlacementRule::TinyLfu, 100);
    placement.add(0_u32, 100, Retention::default());
    for _ in 0..3 {
        placement.hold(0);
        placement.release(0);
    }
    let admitted = (0..4).map(|_| placement.admits(200, Retention::default(), 0));
    assert_eq!(admitted.collect::<Vec<_>>(), [false, false, false, true]);
}

#[test]
#[should_panic(expected = "entry 7 is added twice")]
fn an_entry_is_added_once() {
    let mut placement = Placement::new(PlacementRule::Lru, 4);
    placement.add(7_u32, 1, Retention::default());
    placement.add(7_u32, 2, Retention::default());
}

#[test]
#[should_panic(expected = "entry 7 is released twice")]
fn an_idle_entry_cannot_be_released() {
    let mut placement = Placement::new(PlacementRule::Lru, 4);
    placement.add(7_u32, 1, Retention::default());
    placement.release(7);
}

#[test]
#[should_panic(expected = "entry 7 is not in this level")]
fn an_unknown_entry_cannot_be_held() {
    Placement::new(PlacementRule::Lru, 4).hold(7_u32);
}

#[test]
#[should_panic(expected = "priority 101 of at most 100")]
fn priorities_end_at_a_hundred() {
    let above = Retention { priority: 101, expires_ms: None };
    Placement::new(PlacementRule::Lru, 4).add(7_u32, 1, above);
}
