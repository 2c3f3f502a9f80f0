//! What must hold for every rule, whatever comes: random chunks and weights, and a plain model of a
//! ring for the grace period.

use std::sync::Arc;

use terrace_cache::policy::{
    HeadSlots, KeyPositions, KvPolicy, PolicyError, RecentRule, ReplayLog, Rule, ScoredRule,
    SlotExtras, SlotTable, TableShape, Weighting,
};
use terrace_testkit::Rng;

/// A rule of a test, which scores by the newest weights alone.
#[derive(Debug)]
struct Given(Rule);

impl KvPolicy for Given {
    fn rule(&self, _slots: usize) -> Result<Rule, PolicyError> {
        Ok(self.0.clone())
    }

    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        assert_eq!(head.errors.len(), head.positions.len(), "what was asked for");
        scores.copy_from_slice(head.weights);
    }
}

fn table(rule: Rule, kv_heads: usize, slots: usize) -> SlotTable {
    let policy = Arc::new(Given(rule.clone()));
    SlotTable::new(policy, rule, TableShape { kv_heads, slots }).expect("a rule that fits")
}

fn random_rule(rng: &mut Rng, slots: usize) -> Rule {
    let protected_tokens = rng.below(slots / 3);
    match rng.below(8) {
        0 => Rule::Keep,
        1 | 2 => Rule::Recent(RecentRule {
            protected_tokens,
            text_segment: None,
            key_positions: KeyPositions::InSequence,
        }),
        _ => Rule::Scored(ScoredRule {
            protected_tokens,
            grace_tokens: rng.below(slots / 3),
            initial_slots: rng.below(slots),
            chunk_tokens_max: None,
            weighting: *rng.pick(&[
                Weighting::Attention,
                Weighting::ByValueNorm,
                Weighting::Custom { value_norms: true, errors: true },
            ]),
            per_age: rng.below(2) == 0,
            score_share: (rng.below(2) == 0).then(|| rng.below(11) as f32 / 10.0),
        }),
    }
}

/// A chunk that the table takes now.
fn random_chunk(rng: &mut Rng, table: &SlotTable) -> Option<usize> {
    let slots = table.shape().slots;
    let free = slots - table.filled();
    let most = match table.rule() {
        _ if table.seen_tokens() == 0 => slots,
        Rule::Recent(_) => table.rule().evictable(slots),
        _ if free > 0 => free,
        rule => rule.evictable(slots),
    };
    (most > 0).then(|| 1 + rng.below(most))
}

fn numbers(rng: &mut Rng, count: usize) -> Vec<f32> {
    // Few different ones: equal scores must be decided too.
    (0..count).map(|_| rng.below(20) as f32 / 16.0).collect()
}

#[test]
fn slots_are_different_protected_tokens_stay_and_so_do_the_newest() {
    let mut rng = Rng::new(41);
    for _ in 0..300 {
        let (kv_heads, slots) = (1 + rng.below(3), 6 + rng.below(30));
        let rule = random_rule(&mut rng, slots);
        let mut table = table(rule, kv_heads, slots);
        let mut log = ReplayLog::new(&[table.shape()]);
        for _ in 0..12 {
            let Some(tokens) = random_chunk(&mut rng, &table) else { break };
            let placement = table.choose(tokens).expect("a chunk that fits");
            assert_eq!(placement, table.choose(tokens).expect("the same"), "choosing is pure");
            for slots in placement.slots.chunks_exact(tokens) {
                let mut slots = slots.to_vec();
                slots.sort_unstable();
                slots.dedup();
                assert_eq!(slots.len(), tokens, "a slot was chosen twice");
            }
            let rows = kv_heads * tokens;
            let (value_norms, errors) = (numbers(&mut rng, rows), numbers(&mut rng, rows));
            log.begin_chunk(tokens);
            log.record(0, &placement);
            table.commit(&placement, SlotExtras { value_norms: &value_norms, errors: &errors });
            table.check();
            let weights = numbers(&mut rng, kv_heads * table.filled());
            table.add_weights(tokens, &weights);
            assert!(table.selection().iter().all(|score| !score.is_nan()));
            for head in 0..kv_heads {
                let replayed = log.positions(0, head, table.seen_tokens());
                assert_eq!(replayed, table.positions(head), "the log of head {head}");
            }
        }
        assert_eq!(ReplayLog::from_bytes(&log.to_bytes()), Ok(log));
    }
}

#[test]
fn a_damaged_log_is_an_error() {
    let shape = TableShape { kv_heads: 2, slots: 6 };
    let rule = Rule::Recent(RecentRule {
        protected_tokens: 1,
        text_segment: None,
        key_positions: KeyPositions::InSequence,
    });
    let mut table = table(rule, shape.kv_heads, shape.slots);
    let mut log = ReplayLog::new(&[shape]);
    for tokens in [6, 3, 1, 2] {
        let placement = table.choose(tokens).expect("a chunk that fits");
        log.begin_chunk(tokens);
        log.record(0, &placement);
        table.commit(&placement, SlotExtras::default());
    }
    let bytes = log.to_bytes();
    assert_eq!(log.slots(0, 1, 4..12).collect::<Vec<_>>(), [4, 5, 1, 2, 3, 4, 5, 1]);
    for len in 0..bytes.len() {
        assert!(ReplayLog::from_bytes(&bytes[..len]).is_err(), "{len} bytes of {}", bytes.len());
    }
    let mut rng = Rng::new(5);
    for _ in 0..2000 {
        let mut bytes = bytes.clone();
        let at = rng.below(bytes.len());
        bytes[at] = rng.number() as u8;
        if let Ok(log) = ReplayLog::from_bytes(&bytes) {
            (0..log.layers()).for_each(|layer| {
                let shape = log.shape(layer);
                (0..shape.kv_heads).for_each(|head| {
                    log.positions(layer, head, log.tokens());
                });
            });
        }
    }
}

/// The last slots as a ring that tokens enter and leave for a chosen slot: the published way to
/// give the newest a grace. Slots differ from the table's, tokens do not.
struct Ring {
    slots: usize,
    grace: usize,
    advanced: usize,
    tokens: Vec<(i32, f64)>,
}

impl Ring {
    fn add(&mut self, positions: std::ops::Range<i32>) {
        let full = self.tokens.len() == self.slots;
        let new: Vec<(i32, f64)> = positions.map(|position| (position, 0.0)).collect();
        if !full {
            self.tokens.extend(new);
            return;
        }
        let outside = self.slots - self.grace;
        let mut lowest: Vec<usize> = (0..outside).collect();
        lowest.sort_by(|a, b| self.tokens[*a].1.total_cmp(&self.tokens[*b].1));
        let into_ring = new.len().min(self.grace);
        let ring: Vec<usize> =
            (0..into_ring).map(|i| outside + (self.advanced + i) % self.grace.max(1)).collect();
        let moved: Vec<(i32, f64)> = ring.iter().map(|slot| self.tokens[*slot]).collect();
        let direct = &new[..new.len() - into_ring];
        for (slot, token) in lowest.iter().zip(moved.iter().chain(direct)) {
            self.tokens[*slot] = *token;
        }
        for (slot, token) in ring.iter().zip(&new[direct.len()..]) {
            self.tokens[*slot] = *token;
        }
        if new.len() <= self.grace {
            self.advanced += new.len();
        }
    }
}

#[test]
fn grace_by_position_keeps_what_a_ring_keeps() {
    let mut rng = Rng::new(77);
    for _ in 0..200 {
        let (slots, first) = (8 + rng.below(30), 4);
        let grace = rng.below(slots - 4);
        let rule =
            ScoredRule { protected_tokens: 0, grace_tokens: grace, ..ScoredRule::new(slots) };
        let mut table = table(Rule::Scored(rule), 1, slots);
        let mut ring = Ring { slots, grace, advanced: 0, tokens: Vec::new() };
        let mut chunk = first;
        for _ in 0..20 {
            let seen = table.seen_tokens() as i32;
            let placement = table.choose(chunk).expect("a chunk that fits");
            table.commit(&placement, SlotExtras::default());
            ring.add(seen..seen + chunk as i32);
            // No two tokens may get the same, or slots would decide.
            let weight = |position: i32| {
                ((i64::from(position) * 7919 + seen as i64 * 104_729) % 4093) as f32 / 4093.0 + 1e-3
            };
            let weights: Vec<f32> = table.positions(0).iter().map(|at| weight(*at)).collect();
            table.add_weights(chunk, &weights);
            if seen > 0 {
                ring.tokens.iter_mut().for_each(|(at, score)| *score += f64::from(weight(*at)));
            }
            let mut kept = table.positions(0).to_vec();
            let mut want: Vec<i32> = ring.tokens.iter().map(|(position, _)| *position).collect();
            kept.sort_unstable();
            want.sort_unstable();
            assert_eq!(kept, want, "{slots} slots, {grace} in the ring, after {seen} tokens");
            chunk = random_chunk(&mut rng, &table).expect("it can evict");
        }
    }
}

#[test]
fn of_equal_scores_the_lower_slot_leaves_and_errors_that_are_equal_tell_nothing() {
    let rule = ScoredRule {
        protected_tokens: 2,
        score_share: Some(0.5),
        initial_slots: 0,
        ..ScoredRule::new(8)
    };
    let mut table = table(Rule::Scored(rule), 2, 8);
    for (tokens, want) in [(4, [0, 1, 2, 3].to_vec()), (4, [4, 5, 6, 7].to_vec()), (2, vec![2, 3])]
    {
        let placement = table.choose(tokens).expect("a chunk that fits");
        assert_eq!(placement.slots, want.repeat(2));
        let errors = vec![0.25; 2 * tokens];
        table.commit(&placement, SlotExtras { value_norms: &[], errors: &errors });
        table.add_weights(tokens, &vec![0.0; 2 * table.filled()]);
    }
}

#[test]
fn the_first_to_leave_are_neither_protected_nor_the_newest() {
    for (initial_slots, tokens, first) in [(7, 1, 7), (7, 2, 6), (7, 5, 3), (1, 2, 3)] {
        let rule = ScoredRule {
            protected_tokens: 3,
            grace_tokens: 4,
            initial_slots,
            ..ScoredRule::new(12)
        };
        let mut table = table(Rule::Scored(rule), 1, 12);
        let filled = table.choose(12).expect("a chunk that fits");
        table.commit(&filled, SlotExtras::default());
        let chosen = table.choose(tokens).expect("a chunk that fits");
        assert_eq!(chosen.slots, (first..first + tokens as u32).collect::<Vec<_>>());
        assert!(table.choose(6).is_err(), "only five may leave");
    }
}

#[test]
fn chunks_that_do_not_fit_are_refused() {
    let scored = ScoredRule { protected_tokens: 2, grace_tokens: 1, ..ScoredRule::new(8) };
    let recent = RecentRule {
        protected_tokens: 2,
        text_segment: None,
        key_positions: KeyPositions::InSequence,
    };
    for (rule, fits) in [
        (Rule::Keep, [true, true, false, false]),
        (Rule::Recent(recent), [true, true, true, false]),
        // A chunk may not both fill the cache and evict from it.
        (Rule::Scored(scored), [true, true, false, false]),
    ] {
        let mut table = table(rule, 1, 8);
        let first = table.choose(4).expect("a chunk that fits");
        table.commit(&first, SlotExtras::default());
        let got = [1, 4, 5, 7].map(|tokens| table.choose(tokens).is_ok());
        assert_eq!(got, fits, "{:?}", table.rule());
        assert!(table.choose(0).is_err());
    }
}
