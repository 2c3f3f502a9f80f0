//! One sequence in one layer, as an engine serves it: a rule, a format for keys and one for values,
//! and attention.
//!
//! Live rows pass through their format before attention, so that a chunk sees its own tokens as
//! later ones will, and a row is quantised once.

use super::attention::{Attended, AttentionShape, attend};
use crate::policy::{PolicyError, Rule, SlotExtras, SlotFormat, SlotTable};

#[derive(Debug)]
pub struct SequenceCache {
    table: SlotTable,
    shape: AttentionShape,
    formats: [SlotFormat; 2],
    /// Radians by which a position rotates each pair `i`, `i + pairs` of a key; empty where keys
    /// are not rotated.
    rotation: Vec<f32>,
    /// `[kv_heads][slots][dim]`
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// A chunk: query `[heads][tokens][key_dim]`, keys and values `[kv_heads][tokens][dim]`.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRows<'a> {
    pub tokens: usize,
    pub query: &'a [f32],
    pub keys: &'a [f32],
    pub values: &'a [f32],
}

impl SequenceCache {
    pub fn new(
        table: SlotTable,
        shape: AttentionShape,
        formats: [SlotFormat; 2],
        rotation: Vec<f32>,
    ) -> Self {
        let slots = table.shape().kv_heads * table.shape().slots;
        let keys = vec![0.0; slots * shape.key_dim];
        let values = vec![0.0; slots * shape.value_dim];
        SequenceCache { table, shape, formats, rotation, keys, values }
    }

    pub fn table(&self) -> &SlotTable {
        &self.table
    }

    pub fn step(&mut self, chunk: ChunkRows<'_>) -> Result<Attended, PolicyError> {
        let tokens = chunk.tokens;
        let first = self.table.seen_tokens();
        let placement = self.table.choose(tokens)?;
        let norms: Vec<f32> = chunk.values.chunks_exact(self.shape.value_dim).map(norm).collect();
        let mut keys = chunk.keys.to_vec();
        let mut values = chunk.values.to_vec();
        let key_errors = pass(self.formats[0], &mut keys, self.shape.key_dim);
        let value_errors = pass(self.formats[1], &mut values, self.shape.value_dim);
        let errors: Vec<f32> = key_errors.iter().zip(&value_errors).map(|(k, v)| k + v).collect();
        self.write(&placement.slots, tokens, &keys, &values);
        self.table.commit(&placement, SlotExtras { value_norms: &norms, errors: &errors });
        let attended = self.attend(first, chunk.query);
        self.table.add_weights(tokens, &attended.weights);
        Ok(attended)
    }

    fn write(&mut self, slots: &[u32], tokens: usize, keys: &[f32], values: &[f32]) {
        let per_head = self.table.shape().slots;
        let [key_dim, value_dim] = [self.shape.key_dim, self.shape.value_dim];
        let rows = keys.chunks_exact(key_dim).zip(values.chunks_exact(value_dim));
        for (i, (key, value)) in rows.enumerate() {
            let at = i / tokens * per_head + slots[i] as usize;
            self.keys[at * key_dim..][..key_dim].copy_from_slice(key);
            self.values[at * value_dim..][..value_dim].copy_from_slice(value);
        }
    }

    fn attend(&self, first: usize, query: &[f32]) -> Attended {
        let filled = self.table.filled();
        let heads = 0..self.shape.kv_heads;
        let positions: Vec<i32> =
            heads.clone().flat_map(|head| self.table.positions(head)).copied().collect();
        let of_filled = |rows: &[f32], dim: usize| -> Vec<f32> {
            let slots = self.table.shape().slots;
            let head = |head: usize| rows[head * slots * dim..][..filled * dim].to_vec();
            heads.clone().flat_map(head).collect()
        };
        let mut keys = of_filled(&self.keys, self.shape.key_dim);
        self.rerotate_protected(&mut keys, filled);
        let values = of_filled(&self.values, self.shape.value_dim);
        attend(&self.shape, first, query, &keys, &values, &positions)
    }

    /// Brings protected keys to where the rule has them. keys: `[kv_heads][filled][key_dim]`
    fn rerotate_protected(&self, keys: &mut [f32], filled: usize) {
        let Rule::Recent(rule) = self.table.rule() else { return };
        let by = rule.rerotated(self.table.seen_tokens(), self.table.shape().slots);
        let dim = self.shape.key_dim;
        for head in keys.chunks_exact_mut(filled * dim) {
            for key in head.chunks_exact_mut(dim).take(rule.protected_tokens) {
                rotate(key, &self.rotation, by);
            }
        }
    }
}

/// Rotates a key on by some positions.
fn rotate(key: &mut [f32], rotation: &[f32], by: usize) {
    for (pair, angle) in rotation.iter().enumerate() {
        let (sin, cos) = (f64::from(*angle) * by as f64).sin_cos();
        let (a, b) = (f64::from(key[pair]), f64::from(key[pair + rotation.len()]));
        key[pair] = (a * cos - b * sin) as f32;
        key[pair + rotation.len()] = (b * cos + a * sin) as f32;
    }
}

/// Stores and reads each row of `dim` numbers; gives what that changes.
fn pass(format: SlotFormat, rows: &mut [f32], dim: usize) -> Vec<f32> {
    rows.chunks_exact_mut(dim).map(|row| format.pass(row)).collect()
}

pub(super) fn norm(row: &[f32]) -> f32 {
    row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32
}
