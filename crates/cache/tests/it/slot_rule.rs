//! Rules and formats as the device's ops read them, and what the ops cannot run.

use std::sync::Arc;

use terrace_cache::policy::{
    HeadSlots, KvCacheOptions, KvCacheSpec, KvPolicy, Policies, PolicyEntry, PolicyError, Rule,
    ScoredRule, SlotShape, Weighting,
};
use terrace_device::DType;
use terrace_kernels::{Quantiser, RowFormat, SlotRule, SlotRuleKind};

const SHAPE: SlotShape = SlotShape { kv_heads: 2, key_dim: 8, value_dim: 8, plain: DType::Bf16 };

fn spec(name: &str, policies: &Policies, kwargs: &[(&str, &str)]) -> KvCacheSpec {
    let mut options = KvCacheOptions { name: name.to_owned(), ..KvCacheOptions::dense(64) };
    options.chunk_size = 8;
    for (key, value) in kwargs {
        options.set(key, value).expect("a known option");
    }
    KvCacheSpec::new(&options, policies, &[[8; 2]; 3]).expect(name)
}

fn rule(name: &str, kwargs: &[(&str, &str)]) -> Rule {
    spec(name, &Policies::built_in(), kwargs).rule(64).expect(name)
}

#[test]
fn a_rule_says_all_that_the_ops_read() {
    let kwargs = [("grace_period", "5"), ("normalize_scores", "true")];
    let words = rule("qh2o-vlen-fp8", &kwargs).slot_rule(64, 70, 8, 64).expect("a step");
    let want = SlotRule {
        past: 70,
        slots: 64,
        kind: SlotRuleKind::Scored,
        protected: 8,
        grace: 5,
        initial: 3,
        first_chunk: 64,
        per_age: true,
        by_value_norm: true,
        score_fraction: 0.5,
        rerotated: 0,
    };
    assert_eq!(words, want);
    let words = rule("streamingllm-default", &[]).slot_rule(64, 70, 8, 64).expect("a step");
    let streamed = (words.kind, words.protected, words.rerotated);
    assert_eq!(streamed, (SlotRuleKind::Recent, 4, 70 + 8 - 64));
    let words = rule("dense-fp8", &[]).slot_rule(64, 40, 24, 30).expect("a step");
    assert_eq!((words.kind, words.filled(24)), (SlotRuleKind::Keep, 64));
}

#[test]
fn steps_have_room_or_are_refused() {
    #[track_caller]
    fn refused(rule: &Rule, past: usize, live: usize, first_chunk: usize, want: usize) {
        match rule.slot_rule(64, past, live, first_chunk) {
            Err(PolicyError::ChunkTokens { most, .. }) => assert_eq!(most, want),
            other => panic!("{other:?}"),
        }
        assert!(rule.slot_rule(64, past, want, first_chunk).is_ok());
    }
    let scored = rule("h2o-default", &[("grace_period", "5")]);
    refused(&scored, 0, 31, 30, 30);
    refused(&scored, 20, 11, 30, 10);
    refused(&scored, 30, 35, 30, 34);
    refused(&scored, 64, 52, 30, 51);
    refused(&rule("lastrec-default", &[]), 30, 57, 30, 56);
    refused(&rule("dense-default", &[]), 30, 35, 30, 34);
    assert!(scored.slot_rule(64, 9, 0, 30).is_err());
}

#[test]
fn a_layout_has_what_the_policy_wants() {
    let built_in = Policies::built_in();
    let layout = |name: &str| spec(name, &built_in, &[]).slot_layout(64, 3, &SHAPE).expect(name);
    let mixed = layout("qh2o-vlen-default+torch-quantized4");
    assert_eq!(mixed.keys, RowFormat::Bf16);
    assert_eq!(mixed.values, RowFormat::Quantised(Quantiser::Asymmetric4));
    let notes = |name: &str| {
        let notes = layout(name).notes;
        [notes.scores, notes.value_norms, notes.errors]
    };
    assert_eq!(notes("qh2o-vlen-fp8"), [true; 3]);
    assert_eq!(notes("h2o-vlen-fp8"), [true, true, false]);
    assert_eq!(notes("lastrec-fp8"), [false; 3]);
}

#[derive(Debug)]
struct OwnScore;

impl KvPolicy for OwnScore {
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let weighting = Weighting::Custom { value_norms: false, errors: true };
        Ok(Rule::Scored(ScoredRule { weighting, ..ScoredRule::new(slots) }))
    }

    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        for ((score, weight), error) in scores.iter_mut().zip(head.weights).zip(head.errors) {
            *score += weight - error;
        }
    }
}

#[test]
fn a_score_of_its_own_travels_beside_the_rule() {
    let own = PolicyEntry { name: "own", build: |_| Ok(Arc::new(OwnScore)) };
    let own = spec("own-fp8", &Policies::built_in().with(own), &[]);
    let rule = own.rule(64).expect("a rule");
    let notes = own.slot_layout(64, 3, &SHAPE).expect("a layout").notes;
    assert_eq!([notes.scores, notes.value_norms, notes.errors], [true, false, true]);
    let words = rule.slot_rule(64, 64, 1, 64).expect("a step");
    assert_eq!((words.kind, words.by_value_norm), (SlotRuleKind::Scored, false));
    let head = HeadSlots {
        positions: &[0, 1],
        weights: &[0.25, 0.75],
        value_norms: &[],
        errors: &[0.5, 0.0],
        chunk_tokens: 1,
        seen_tokens: 2,
    };
    let mut scores = [1.0, 2.0];
    rule.scorer(&own.policy).expect("a score of its own").score(&head, &mut scores);
    assert_eq!(scores, [0.75, 2.75]);
    let h2o = spec("h2o-default", &Policies::built_in(), &[]);
    assert!(h2o.rule(64).expect("a rule").scorer(&h2o.policy).is_none());
}

#[derive(Debug)]
struct KeepsInShortLayers;

impl KvPolicy for KeepsInShortLayers {
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let scored = || Rule::Scored(ScoredRule::new(slots));
        Ok(if slots < 40 { Rule::Keep } else { scored() })
    }
}

#[test]
fn what_ops_cannot_run_is_refused() {
    let mixed = PolicyEntry { name: "mixed", build: |_| Ok(Arc::new(KeepsInShortLayers)) };
    let mut options = KvCacheOptions { name: "mixed-default".into(), ..KvCacheOptions::dense(64) };
    options.set("cache_length", "64,32,64").expect("a known option");
    options.chunk_size = 8;
    let refused = KvCacheSpec::new(&options, &Policies::built_in().with(mixed), &[[8; 2]; 3]);
    let refused = refused.expect_err("all layers are alike");
    assert!(matches!(refused, PolicyError::MixedLayers { keeping: 32, evicting: 64, .. }));
    let compat = spec("h2o-default", &Policies::built_in(), &[("compat", "keys_values")]);
    assert!(compat.slot_layout(64, 3, &SHAPE).is_err());
    let unread = rule("smart-lastrec-default", &[("cache_kwargs.end_initial_regex", "x")]);
    assert!(unread.slot_rule(64, 0, 4, 64).is_err());
}
