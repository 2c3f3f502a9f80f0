//! A batch of fixed rows in one layer, as awslabs/keys_values computes it.
//!
//! It differs from what is served where the original has a defect or where only a fixed batch makes
//! sense: newest tokens are a ring of slots that keep their old scores; scores protect no first
//! tokens; `h2o-orig` sums over rows; blocks of quantisers may span heads and rows; live rows are
//! not quantised, but the whole buffer is whenever layers take turns
//! ([`FixedBatchCache::requantise`]). Not for serving: every step copies the batch.

use super::batch_shape::BatchShape;
use super::batch_step::{BatchCall, BatchStep};
use super::blocks::FixedBlocks;
use super::ranges::Ranges;
use super::scored::Scored;
use crate::policy::{KvCacheSpec, PolicyError, Rule, SlotFormat};
use crate::reference::attention::{Attended, AttentionShape, attend};
use crate::reference::sequence_cache::norm;

#[derive(Debug)]
pub struct FixedBatchCache {
    shape: BatchShape,
    chooser: Chooser,
    keys: FixedBlocks,
    values: FixedBlocks,
    seen_tokens: usize,
    /// `[rows][kv_heads][slots]`
    positions: Vec<i32>,
    /// `[rows][kv_heads][slots][head_dim]`
    key_rows: Vec<f32>,
    value_rows: Vec<f32>,
}

/// What decides about slots.
#[derive(Debug)]
enum Chooser {
    Keep,
    Round(Ranges),
    Scored(Scored),
}

impl FixedBatchCache {
    /// The spec's policy and buffers; its chunk sizes are the caller's matter.
    pub fn new(spec: &KvCacheSpec, shape: BatchShape) -> Result<Self, PolicyError> {
        assert!(spec.compat.is_some(), "a cache that is served has no fixed batch");
        let all = shape.rows * shape.kv_heads * shape.slots;
        let chooser = match spec.rule(shape.slots)? {
            Rule::Keep => Chooser::Keep,
            Rule::Recent(rule) => Chooser::Round(Ranges::new(rule, shape)),
            Rule::Scored(rule) => {
                let over_rows = spec.policy_name == "h2o-orig";
                Chooser::Scored(Scored::new(rule, shape, over_rows))
            }
        };
        let BatchShape { rows, kv_heads, head_dim, .. } = shape;
        let blocks =
            |format: SlotFormat| FixedBlocks::new(format.quantiser(), rows, kv_heads, head_dim);
        Ok(FixedBatchCache {
            shape,
            chooser,
            keys: blocks(spec.keys),
            values: blocks(spec.values),
            seen_tokens: 0,
            positions: vec![0; all],
            key_rows: vec![0.0; all * shape.head_dim],
            value_rows: vec![0.0; all * shape.head_dim],
        })
    }

    pub fn seen_tokens(&self) -> usize {
        self.seen_tokens
    }

    /// `[rows][kv_heads][filled]`
    pub fn positions(&self) -> Vec<i32> {
        self.of_filled(&self.positions, 1)
    }

    /// `[rows][kv_heads][filled]`, of a policy with scores.
    pub fn scores(&self) -> Option<Vec<f32>> {
        self.scored().map(|scored| self.of_filled(&scored.scores, 1))
    }

    /// What decides who leaves next, `[rows][kv_heads][filled]`.
    pub fn selection(&self) -> Option<Vec<f32>> {
        let selection = |scored: &Scored| scored.selection(&self.positions, self.seen_tokens);
        self.scored().map(|scored| self.of_filled(&selection(scored), 1))
    }

    /// Norms of values and what storing changed, `[rows][kv_heads][filled]`.
    pub fn extras(&self) -> Option<[Vec<f32>; 2]> {
        let of = |numbers: &Vec<f32>| self.of_filled(numbers, 1);
        self.scored().map(|scored| [of(&scored.norms), of(&scored.errors)])
    }

    /// Keys and values, `[rows][kv_heads][filled][head_dim]`.
    pub fn rows(&self) -> [Vec<f32>; 2] {
        [&self.key_rows, &self.value_rows].map(|rows| self.of_filled(rows, self.shape.head_dim))
    }

    /// For each row the slots that stay, and the next one to be written: of `smart-lastrec`.
    pub fn ranges(&self) -> Vec<(Option<(usize, usize)>, usize)> {
        match &self.chooser {
            Chooser::Round(ranges) => ranges.of_rows(),
            _ => Vec::new(),
        }
    }

    /// What happens to the buffer when another layer takes the working copy.
    pub fn requantise(&mut self) {
        self.keys.pass(&mut self.key_rows);
        self.values.pass(&mut self.value_rows);
    }

    pub fn step(&mut self, call: &BatchCall<'_>) -> Result<BatchStep, PolicyError> {
        self.check_chunk(call.tokens)?;
        let (first, tokens) = (self.seen_tokens, call.tokens);
        let next: Vec<u32> = (first as u32..(first + tokens) as u32).collect();
        let heads = self.shape.rows * self.shape.kv_heads;
        let slots = match &mut self.chooser {
            Chooser::Keep => next.repeat(heads),
            Chooser::Round(ranges) => ranges.choose(first, call)?,
            Chooser::Scored(scored) => scored.choose(&self.positions, first, tokens),
        };
        self.write(&slots, call);
        self.seen_tokens += tokens;
        let attended = self.attend(first, call.query);
        let weights: Vec<f32> = attended.iter().flat_map(|row| &row.weights).copied().collect();
        if let Chooser::Scored(scored) = &mut self.chooser
            && first > 0
        {
            scored.add_weights(&weights, tokens, self.seen_tokens);
        }
        let out = attended.into_iter().flat_map(|row| row.out).collect();
        Ok(BatchStep { out, slots, weights })
    }

    fn check_chunk(&self, tokens: usize) -> Result<(), PolicyError> {
        let (seen, slots) = (self.seen_tokens, self.shape.slots);
        let free = slots.saturating_sub(seen);
        let most = match &self.chooser {
            _ if seen == 0 => slots,
            Chooser::Keep => free,
            Chooser::Round(ranges) => ranges.tokens_max(),
            Chooser::Scored(_) if free > 0 => free,
            Chooser::Scored(scored) => scored.tokens_max(),
        };
        if tokens == 0 || most < tokens {
            return Err(PolicyError::ChunkTokens { tokens, most, seen, slots });
        }
        Ok(())
    }

    /// Writes the call's rows, and moves what the ring gives up.
    fn write(&mut self, slots: &[u32], call: &BatchCall<'_>) {
        let (tokens, seen) = (call.tokens, self.seen_tokens);
        let dim = self.shape.head_dim;
        let errors = [self.keys.errors(call.keys), self.values.errors(call.values)];
        let grace = match &mut self.chooser {
            Chooser::Scored(scored) => scored.ring_slots(tokens, seen),
            _ => Vec::new(),
        };
        let direct = tokens - grace.len();
        for head in 0..self.shape.rows * self.shape.kv_heads {
            let chosen = &slots[head * tokens..(head + 1) * tokens];
            // The ring's oldest go first, then the call's tokens that do not fit the ring.
            for (ring, to) in grace.iter().zip(chosen) {
                self.move_slot(head, *ring as usize, *to as usize);
            }
            let targets = chosen[grace.len()..].iter().chain(&grace);
            for (token, slot) in targets.enumerate() {
                let at = head * self.shape.slots + *slot as usize;
                let from = (head * tokens + token) * dim;
                self.key_rows[at * dim..][..dim].copy_from_slice(&call.keys[from..][..dim]);
                let value = &call.values[from..][..dim];
                self.value_rows[at * dim..][..dim].copy_from_slice(value);
                self.positions[at] = (seen + token) as i32;
                if let Chooser::Scored(scored) = &mut self.chooser {
                    let in_ring = direct <= token && !grace.is_empty();
                    let error: f32 =
                        errors.iter().map(|errors| errors[head * tokens + token]).sum();
                    scored.enter(at, norm(value), error, in_ring);
                }
            }
        }
    }

    fn move_slot(&mut self, head: usize, from: usize, to: usize) {
        let dim = self.shape.head_dim;
        let [from, to] = [from, to].map(|slot| head * self.shape.slots + slot);
        for rows in [&mut self.key_rows, &mut self.value_rows] {
            rows.copy_within(from * dim..(from + 1) * dim, to * dim);
        }
        self.positions[to] = self.positions[from];
        if let Chooser::Scored(scored) = &mut self.chooser {
            scored.move_slot(from, to);
        }
    }

    fn attend(&self, first: usize, query: &[f32]) -> Vec<Attended> {
        let shape = AttentionShape {
            heads: self.shape.heads,
            kv_heads: self.shape.kv_heads,
            key_dim: self.shape.head_dim,
            value_dim: self.shape.head_dim,
            scale: self.shape.scale,
            window: None,
            soft_cap: None,
        };
        let [keys, values] = self.rows();
        let positions = self.positions();
        let row_of = |numbers: &[f32], row: usize| {
            let each = numbers.len() / self.shape.rows;
            numbers[row * each..(row + 1) * each].to_vec()
        };
        let each = positions.len() / self.shape.rows;
        let row = |row: usize| {
            let positions = &positions[row * each..(row + 1) * each];
            let [query, keys, values] = [query, &keys, &values].map(|x| row_of(x, row));
            attend(&shape, first, &query, &keys, &values, positions)
        };
        (0..self.shape.rows).map(row).collect()
    }

    fn scored(&self) -> Option<&Scored> {
        match &self.chooser {
            Chooser::Scored(scored) => Some(scored),
            _ => None,
        }
    }

    /// The filled slots of `[rows][kv_heads][slots][dim]`.
    fn of_filled<T: Copy>(&self, numbers: &[T], dim: usize) -> Vec<T> {
        let filled = self.seen_tokens.min(self.shape.slots);
        let heads = numbers.chunks_exact(self.shape.slots * dim);
        heads.flat_map(|head| head[..filled * dim].iter().copied()).collect()
    }
}
