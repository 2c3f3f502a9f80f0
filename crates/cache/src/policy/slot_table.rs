//! What the slots of one sequence hold in one layer, and which are given to its next tokens.
//!
//! A step is: [`SlotTable::choose`] slots for the chunk's tokens, attend over what stays and the
//! live rows, [`SlotTable::commit`], and [`SlotTable::add_weights`]. The tokens that were in the
//! chosen slots are gone before the chunk attends. Nothing here knows bytes.
//!
//! This is the specification of the device's ops: its arrays are flat as theirs are. Invariant: the
//! filled slots of a head hold different positions; slot `p` holds position `p` while `p` is
//! protected.

use std::sync::Arc;

use super::error::PolicyError;
use super::rule::{Rule, ScoredRule, Weighting};
use super::{HeadSlots, KvPolicy, scoring};

#[derive(Clone, Debug)]
pub struct SlotTable {
    policy: Arc<dyn KvPolicy>,
    rule: Rule,
    shape: TableShape,
    seen_tokens: usize,
    /// Tokens of the first chunk, which leaves no scores.
    first_chunk: usize,
    /// All `[kv_heads][slots]`; what the rule does not ask for is empty.
    positions: Vec<i32>,
    scores: Vec<f32>,
    value_norms: Vec<f32>,
    errors: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    pub kv_heads: usize,
    pub slots: usize,
}

/// Where a chunk's tokens go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub tokens: usize,
    /// `[kv_heads][tokens]`
    pub slots: Vec<u32>,
}

/// What a scored rule wants to know about a chunk's rows, each `[kv_heads][tokens]`; what it does
/// not ask for is not read.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotExtras<'a> {
    pub value_norms: &'a [f32],
    pub errors: &'a [f32],
}

/// The position of a slot that holds no token.
const NONE: i32 = -1;

impl SlotTable {
    /// `rule` is that of the sequence, see [`Rule::for_sequence`].
    pub fn new(
        policy: Arc<dyn KvPolicy>,
        rule: Rule,
        shape: TableShape,
    ) -> Result<Self, PolicyError> {
        let rule = rule.checked(shape.slots)?;
        let all = shape.kv_heads * shape.slots;
        let numbers = |wanted: bool| vec![0.0; if wanted { all } else { 0 }];
        Ok(SlotTable {
            policy,
            shape,
            seen_tokens: 0,
            first_chunk: 0,
            positions: vec![NONE; all],
            scores: numbers(rule.wants_weights()),
            value_norms: numbers(rule.wants_value_norms()),
            errors: numbers(rule.wants_errors()),
            rule,
        })
    }

    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    pub fn shape(&self) -> TableShape {
        self.shape
    }

    /// Tokens of the sequence so far.
    pub fn seen_tokens(&self) -> usize {
        self.seen_tokens
    }

    /// Slots that hold a token, the first ones of every head.
    pub fn filled(&self) -> usize {
        self.seen_tokens.min(self.shape.slots)
    }

    /// Positions of the tokens in a head's filled slots.
    pub fn positions(&self, head: usize) -> &[i32] {
        &self.positions[self.filled_slots(head)]
    }

    /// Scores of a head's filled slots; empty where the rule has none.
    pub fn scores(&self, head: usize) -> &[f32] {
        if self.scores.is_empty() { &[] } else { &self.scores[self.filled_slots(head)] }
    }

    /// Slots for the next tokens. Changes nothing.
    pub fn choose(&self, tokens: usize) -> Result<Placement, PolicyError> {
        self.check_chunk(tokens)?;
        let (seen, slots) = (self.seen_tokens, self.shape.slots);
        let heads = 0..self.shape.kv_heads;
        let next = seen..seen + tokens;
        let chosen: Vec<u32> = match &self.rule {
            Rule::Recent(rule) => {
                let round = next.map(|position| rule.slot(position, slots) as u32);
                heads.flat_map(|_| round.clone()).collect()
            }
            Rule::Scored(rule) if seen >= slots => self.lowest(rule, tokens),
            _ => heads.flat_map(|_| next.clone().map(|slot| slot as u32)).collect(),
        };
        Ok(Placement { tokens, slots: chosen })
    }

    /// The chunk's tokens are in their slots.
    pub fn commit(&mut self, placement: &Placement, extras: SlotExtras<'_>) {
        let (tokens, slots) = (placement.tokens, self.shape.slots);
        assert_eq!(placement.slots.len(), self.shape.kv_heads * tokens, "slots of a placement");
        for (i, slot) in placement.slots.iter().enumerate() {
            let (head, token) = (i / tokens, i % tokens);
            let at = head * slots + *slot as usize;
            self.positions[at] = (self.seen_tokens + token) as i32;
            if !self.scores.is_empty() {
                self.scores[at] = 0.0;
            }
            if !self.value_norms.is_empty() {
                self.value_norms[at] = extras.value_norms[i];
            }
            if !self.errors.is_empty() {
                self.errors[at] = extras.errors[i];
            }
        }
        if self.seen_tokens == 0 {
            self.first_chunk = tokens;
        }
        self.seen_tokens += tokens;
    }

    /// What the committed chunk attended to, `[kv_heads][filled]`. The first chunk leaves no
    /// scores, so that the longest one can attend without weights.
    pub fn add_weights(&mut self, chunk_tokens: usize, weights: &[f32]) {
        let Rule::Scored(rule) = self.rule else { return };
        let filled = self.filled();
        assert_eq!(weights.len(), self.shape.kv_heads * filled, "weights of the filled slots");
        if self.seen_tokens == self.first_chunk {
            return;
        }
        for (head, weights) in weights.chunks_exact(filled).enumerate() {
            let at = self.filled_slots(head);
            let of = |numbers: &'_ [f32]| if numbers.is_empty() { 0..0 } else { at.clone() };
            let head = HeadSlots {
                positions: &self.positions[at.clone()],
                weights,
                value_norms: &self.value_norms[of(&self.value_norms)],
                errors: &self.errors[of(&self.errors)],
                chunk_tokens,
                seen_tokens: self.seen_tokens,
            };
            let scores = &mut self.scores[at.clone()];
            match rule.weighting {
                Weighting::Custom { .. } => self.policy.score(&head, scores),
                built_in => scoring::add_weights(built_in, &head, scores),
            }
        }
    }

    /// What decides who leaves next, `[kv_heads][slots]`; it means something only for slots that
    /// may leave.
    pub fn selection(&self) -> Vec<f32> {
        let Rule::Scored(rule) = &self.rule else { return Vec::new() };
        let mut selection = self.scores.clone();
        if rule.per_age {
            let (seen, first) = (self.seen_tokens, self.first_chunk);
            scoring::divide_by_age(&mut selection, &self.positions, seen, first);
        }
        if let Some(share) = rule.score_share {
            let counted = |at: usize| self.may_leave(rule, at);
            scoring::join_errors(share, &mut selection, &self.errors, counted);
        }
        selection
    }

    /// Panics unless every head's filled slots hold different positions, those up to the first one
    /// that may leave and those within the grace among them.
    pub fn check(&self) {
        let (protected, grace) = match &self.rule {
            Rule::Keep => (self.seen_tokens, 0),
            Rule::Recent(rule) => (rule.protected_tokens, self.evictable()),
            Rule::Scored(rule) => (rule.protected_tokens, rule.grace_tokens),
        };
        for head in 0..self.shape.kv_heads {
            let mut held = self.positions(head).to_vec();
            let kept = protected.min(self.seen_tokens);
            assert!((0..kept as i32).eq(held[..kept].iter().copied()), "head {head}: {held:?}");
            held.sort_unstable();
            assert!(held.windows(2).all(|pair| pair[0] < pair[1]), "head {head}: {held:?}");
            let newest = self.seen_tokens.saturating_sub(grace)..self.seen_tokens;
            for position in newest {
                let found = held.binary_search(&(position as i32)).is_ok();
                assert!(found, "head {head} has lost position {position} within the grace");
            }
        }
    }

    fn check_chunk(&self, tokens: usize) -> Result<(), PolicyError> {
        let (seen, slots) = (self.seen_tokens, self.shape.slots);
        let most = if seen == 0 { slots } else { self.rule.room(seen, slots) };
        if tokens == 0 || most < tokens {
            return Err(PolicyError::ChunkTokens { tokens, most, seen, slots });
        }
        Ok(())
    }

    fn evictable(&self) -> usize {
        self.rule.evictable(self.shape.slots)
    }

    fn lowest(&self, rule: &ScoredRule, tokens: usize) -> Vec<u32> {
        let slots = self.shape.slots;
        let heads = 0..self.shape.kv_heads;
        // A first chunk that filled the cache has left no scores to decide by.
        if self.seen_tokens == slots && self.first_chunk == slots {
            let first = rule.first_initial(tokens, slots) as u32;
            return heads.flat_map(|_| first..first + tokens as u32).collect();
        }
        let selection = self.selection();
        let of_head = |head: usize| {
            let scores = &selection[head * slots..(head + 1) * slots];
            let candidate = |slot: usize| self.may_leave(rule, head * slots + slot);
            scoring::lowest(scores, rule.protected_tokens..slots, candidate, tokens)
        };
        heads.flat_map(of_head).collect()
    }

    /// `at`: an index of `[kv_heads][slots]`.
    fn may_leave(&self, rule: &ScoredRule, at: usize) -> bool {
        let position = self.positions[at];
        rule.protected_tokens as i32 <= position
            && position < self.seen_tokens as i32 - rule.grace_tokens as i32
    }

    fn filled_slots(&self, head: usize) -> std::ops::Range<usize> {
        let start = head * self.shape.slots;
        start..start + self.filled()
    }
}
