//! Pages of the store: taken all or none, free when their last holder lets them go.

use terrace_cache::placement::{Claims, PlacementRule, Retention};
use terrace_cache::{PageKey, StorePageId, StoreSpace};
use terrace_testkit::Rng;

#[test]
fn pages_are_taken_all_or_none() {
    let mut store = StoreSpace::new(3, PlacementRule::Lru);
    let two = store.take(2).expect("three are free");
    assert_eq!(store.take(2), None);
    assert_eq!((store.available(), store.total()), (1, 3));
    store.check(two.iter().copied());
    store.share(&two);
    store.release(&two);
    assert_eq!(store.available(), 1, "there is another holder");
    store.release(&two);
    assert_eq!(store.available(), 3);
    assert_eq!(store.take(0), Some(Vec::new()));
}

#[test]
fn no_page_is_lost_or_doubled() {
    let mut rng = Rng::new(1);
    let mut store = StoreSpace::new(20, PlacementRule::Lru);
    let mut held: Vec<Vec<StorePageId>> = Vec::new();
    for _ in 0..5000 {
        match rng.below(3) {
            0 => {
                let (pages, free) = (rng.below(8), store.available());
                let taken = store.take(pages);
                assert_eq!(taken.is_some(), pages <= free);
                held.extend(taken);
            }
            1 if !held.is_empty() => {
                let again = rng.pick(&held).clone();
                store.share(&again);
                held.push(again);
            }
            _ if !held.is_empty() => {
                let pages = held.swap_remove(rng.below(held.len()));
                store.release(&pages);
            }
            _ => {}
        }
        store.check(held.iter().flatten().copied());
    }
}

#[test]
fn content_makes_no_way_for_what_is_less_important() {
    let claims = |priority| Claims::from(Retention { priority, expires_ms: None });
    let mut store = StoreSpace::new(1, PlacementRule::Lru);
    let page = store.take_for(&claims(0)).expect("it is free");
    let key = PageKey::from_bytes([1; 32]);
    store.keep(page, key, Retention { priority: 60, expires_ms: Some(10) });
    assert_eq!(store.take_for(&claims(100)), None, "it is held");
    store.release(&[page]);
    assert_eq!(store.take_for(&claims(59)), None);
    store.set_now(10);
    assert_eq!(store.take_for(&claims(0)), Some(page), "its time is over");
    store.keep(page, key, Retention { priority: 60, expires_ms: None });
    store.release(&[page]);
    store.set_clean(&key, true);
    assert_eq!(store.take_for(&claims(0)), Some(page), "a lower tier has it too");
    store.release(&[page]);
    store.check([]);
}
