//! The ops that choose slots and attend over them, held to the plain cache through random
//! histories: many rules, formats, page sizes and chunks.

mod slot_case;

use std::sync::Arc;

use terrace_cache::policy::{
    KvPolicy, PolicyError, Rule, ScoredRule, SlotTable, TableShape, Weighting,
};
use terrace_cache::reference::{AttentionShape, SequenceCache};
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_testkit::Rng;

use slot_case::{Held, SlotCase, SlotSeq};

/// Scores nearer than this may be decided either way.
const DECISION_SLACK: f32 = 1e-5;
const NUMBER_SLACK: f32 = 1e-5;

fn ops() -> Ops {
    Ops::cpu(CpuOptions { threads: 2, level: None, compute: Compute::F32 }).expect("the CPU's ops")
}

#[test]
fn ops_do_what_the_plain_cache_does() {
    let (ops, mut close, cases) = (ops(), 0, 150);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let case = SlotCase::random(&mut rng, 1);
        let mut plain: Vec<PlainLayer> =
            (0..case.layers()).map(|layer| PlainLayer::new(&case, layer)).collect();
        let mut held = Vec::new();
        let ran = case.run(&ops, |run, step| held.push(case.held(run, 0, step + 1)));
        for (layer, plain) in plain.iter_mut().enumerate() {
            for (step, outs) in ran.outs[0].iter().enumerate() {
                let expected = plain.step(&case.seqs[0], step);
                if !same_decisions(&outs[layer].slots, &expected, case.shape.layout.kv_heads) {
                    close += 1;
                    break;
                }
                let place = format!("seed {seed}, layer {layer}, step {step}");
                near(&place, &outs[layer].out, &expected.out);
                plain.check(&place, &held[step][layer]);
            }
        }
    }
    println!("{close} of {cases} cases ended at scores that are almost equal");
    assert!(close < cases / 20, "{close} of {cases} cases decide otherwise");
}

#[test]
fn sequences_in_a_batch_are_as_alone() {
    let ops = ops();
    for seed in 0..40 {
        let mut rng = Rng::new(1000 + seed);
        let seqs = 2 + rng.below(4);
        let case = SlotCase::random(&mut rng, seqs);
        let together = case.run(&ops, |_, _| {});
        for seq in 0..seqs {
            let alone = case.alone(seq).run(&ops, |_, _| {});
            assert_eq!(together.outs[seq], alone.outs[0], "sequence {seq}");
            assert_eq!(together.held[seq], alone.held[0], "sequence {seq}");
        }
    }
}

#[test]
fn pages_of_any_size_hold_the_same() {
    let ops = ops();
    for seed in 0..20 {
        let case = SlotCase::random(&mut Rng::new(2000 + seed), 2);
        let want = case.paged(16).run(&ops, |_, _| {});
        for page_slots in [1, 3, 64] {
            let got = case.paged(page_slots).run(&ops, |_, _| {});
            assert_eq!(got, want, "seed {seed}, {page_slots} slots a page");
        }
    }
}

#[test]
fn a_first_chunk_may_be_spread_over_steps() {
    let ops = ops();
    for seed in 0..40 {
        let mut rng = Rng::new(3000 + seed);
        let mut case = SlotCase::random(&mut rng, 1);
        let whole = case.run(&ops, |_, _| {});
        case.seqs[0] = case.seqs[0].spread(&mut rng);
        let spread = case.run(&ops, |_, _| {});
        let place = format!("seed {seed}");
        for layer in 0..case.layers() {
            let outs = |ran: &slot_case::Ran| -> Vec<f32> {
                ran.outs[0].iter().flat_map(|step| step[layer].out.clone()).collect()
            };
            near(&place, &outs(&spread), &outs(&whole));
            let (spread, whole) = (&spread.held[0][layer], &whole.held[0][layer]);
            assert_eq!(spread.positions, whole.positions, "{place}");
            near(&place, &spread.scores, &whole.scores);
        }
    }
}

#[test]
fn a_cache_longer_than_the_sequence_is_a_dense_one() {
    let ops = ops();
    for seed in 0..40 {
        let mut case = SlotCase::random(&mut Rng::new(4000 + seed), 1);
        let SlotSeq { slots, .. } = case.seqs[0];
        case.seqs[0].slots = case.seqs[0].tokens().max(slots);
        let policy = case.run(&ops, |_, _| {});
        case.seqs[0].rule = Rule::Keep;
        let dense = case.run(&ops, |_, _| {});
        for (step, (policy, dense)) in policy.outs[0].iter().zip(&dense.outs[0]).enumerate() {
            for (policy, dense) in policy.iter().zip(dense) {
                assert_eq!(policy.slots, dense.slots, "seed {seed}, step {step}");
                near(&format!("seed {seed}, step {step}"), &policy.out, &dense.out);
            }
        }
    }
}

/// Writes no score: the one it gets is h2o's.
#[derive(Debug)]
struct Repeating;

impl KvPolicy for Repeating {
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        Ok(Rule::Scored(ScoredRule { weighting: OWN, ..ScoredRule::new(slots) }))
    }
}

const OWN: Weighting = Weighting::Custom { value_norms: false, errors: false };

#[test]
fn a_score_that_repeats_a_built_in_one_decides_as_it_does() {
    let (ops, mut compared) = (ops(), 0);
    for seed in 0..60 {
        let mut case = SlotCase::random(&mut Rng::new(5000 + seed), 3);
        let built_in = case.run(&ops, |_, _| {});
        for seq in &mut case.seqs {
            if let Rule::Scored(rule) = &mut seq.rule
                && rule.weighting == Weighting::Attention
            {
                (rule.weighting, seq.policy) = (OWN, Arc::new(Repeating));
                compared += 1;
            }
        }
        assert_eq!(case.run(&ops, |_, _| {}), built_in, "seed {seed}");
    }
    assert!(compared > 20, "{compared} sequences have scores");
}

/// A layer of a case's only sequence, as the reference computes it.
struct PlainLayer {
    cache: SequenceCache,
    layer: usize,
    rotation: Vec<f32>,
    dim: usize,
}

struct PlainStep {
    slots: Vec<u32>,
    /// What decided, `[kv_heads][slots]`.
    selection: Vec<f32>,
    out: Vec<f32>,
}

impl PlainLayer {
    fn new(case: &SlotCase, layer: usize) -> Self {
        let (seq, shape) = (&case.seqs[0], &case.shape);
        let table = TableShape { kv_heads: shape.layout.kv_heads, slots: seq.slots };
        let policy = Arc::clone(&seq.policy);
        let table = SlotTable::new(policy, seq.rule.clone(), table).expect("a table");
        let attention = AttentionShape {
            heads: shape.heads,
            kv_heads: shape.layout.kv_heads,
            key_dim: shape.layout.key_dim,
            value_dim: shape.layout.value_dim,
            scale: shape.scale,
            window: shape.window,
            soft_cap: None,
        };
        let rotation = shape.rotation.clone();
        let cache = SequenceCache::new(table, attention, case.formats, rotation.clone());
        PlainLayer { cache, layer, rotation, dim: shape.layout.key_dim }
    }

    fn step(&mut self, seq: &SlotSeq, step: usize) -> PlainStep {
        let table = self.cache.table();
        let slots = table.choose(seq.steps[step]).expect("a step that fits").slots;
        let (selection, first) = (table.selection(), table.seen_tokens());
        let rows = seq.step_rows(step).swap_remove(self.layer);
        let rows = rows.rotated(&self.rotation, first, self.dim);
        let out = self.cache.step(rows.chunk()).expect("a step that fits").out;
        PlainStep { slots, selection, out }
    }

    fn check(&self, place: &str, held: &Held) {
        let table = self.cache.table();
        let heads = 0..table.shape().kv_heads;
        let positions: Vec<i32> =
            heads.clone().flat_map(|head| table.positions(head)).copied().collect();
        assert_eq!(held.positions, positions, "{place}");
        let scores: Vec<f32> = heads.flat_map(|head| table.scores(head)).copied().collect();
        if table.rule().wants_weights() {
            near(place, &held.scores, &scores);
        }
    }
}

/// Whether the same slots were chosen; they may differ only where scores are close.
fn same_decisions(got: &[u32], want: &PlainStep, kv_heads: usize) -> bool {
    if got == want.slots {
        return true;
    }
    let (slots, tokens) = (want.selection.len() / kv_heads, got.len() / kv_heads);
    assert!(0 < slots, "slots {got:?}, wanted {:?}", want.slots);
    for (i, pair) in got.iter().zip(&want.slots).enumerate() {
        let score = |slot: &u32| want.selection[i / tokens * slots + *slot as usize];
        let gap = (score(pair.0) - score(pair.1)).abs();
        assert!(
            gap < DECISION_SLACK,
            "slot {} for {}, their scores differ by {gap}",
            pair.0,
            pair.1
        );
    }
    false
}

#[track_caller]
fn near(place: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{place}: how many");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let slack = NUMBER_SLACK * want.abs().max(1.0);
        assert!((got - want).abs() <= slack, "{place} [{i}]: {got}, wanted {want}");
    }
}
