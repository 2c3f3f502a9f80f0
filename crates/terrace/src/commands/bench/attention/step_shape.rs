//! The sizes of a step over full caches, and what it must read and compute.

use terrace_kernels::{RowFormat, SlotLayout, SlotNotes, SlotRule, SlotRuleKind};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepShape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Slots of a sequence.
    pub keys: usize,
    pub page_slots: usize,
    pub seqs: usize,
    /// New rows of each sequence.
    pub rows: usize,
    /// Of keys and values.
    pub format: RowFormat,
    /// Whether the weights of slots are added to scores.
    pub weights: bool,
}

impl StepShape {
    pub fn name(&self) -> &'static str {
        if self.rows == 1 { "decode" } else { "chunk" }
    }

    pub fn tokens(&self) -> usize {
        self.seqs * self.rows
    }

    pub fn seq_pages(&self) -> usize {
        self.keys.div_ceil(self.page_slots)
    }

    pub fn layout(&self, layers: usize) -> SlotLayout {
        SlotLayout {
            layers,
            kv_heads: self.kv_heads,
            page_slots: self.page_slots,
            key_dim: self.head_dim,
            value_dim: self.head_dim,
            keys: self.format,
            values: self.format,
            notes: SlotNotes { scores: self.weights, value_norms: false, errors: false },
        }
    }

    /// Of a sequence whose slots all hold a token of their own number.
    pub fn rule(&self) -> SlotRule {
        SlotRule::new(
            if self.weights { SlotRuleKind::Scored } else { SlotRuleKind::Recent },
            self.keys,
            self.keys,
        )
    }

    /// Of all sequences in one layer: read once, and scores written once.
    pub fn bytes(&self) -> usize {
        let slots = self.seqs * self.keys * self.kv_heads;
        let written = if self.weights { size_of::<f32>() } else { 0 };
        slots * (self.layout(1).slot_bytes() + written)
    }

    /// Of the products with keys and values.
    pub fn operations(&self) -> f64 {
        4.0 * (self.tokens() * self.heads) as f64 * (self.keys * self.head_dim) as f64
    }
}
