//! Keys, values and positions in the slots of one layer, for all sequences of a batch.

use std::sync::Arc;

use terrace_cache::policy::SlotFormat;
use terrace_device::View;
use terrace_kernels::{ChunkAt, KeptRows, ReplaySlots, RowGradients, TuneOps};

use super::batch_replay::BatchReplay;
use crate::checkpoints::{Gathered, StoredRows};
use crate::error::Error;
use crate::model::LayerDims;
use crate::tensor::Tensor;

pub(crate) struct LayerSlots {
    dims: LayerDims,
    /// act `[seqs * kv_heads, slots, head_dim]`
    keys: Tensor,
    values: Tensor,
    /// i32 `[seqs * kv_heads, slots]`
    positions: Tensor,
    /// Tokens of each sequence so far.
    tokens: usize,
}

/// A chunk in its slots, and what it took the place of.
pub(crate) struct PlacedChunk {
    pub at: ChunkAt,
    /// i32 `[seqs * kv_heads, tokens]`
    slots: Arc<Tensor>,
    keys: Tensor,
    values: Tensor,
    positions: Tensor,
}

impl LayerSlots {
    pub fn empty(
        ops: &TuneOps<'_>,
        dims: LayerDims,
        seqs: usize,
        slots: usize,
    ) -> Result<Self, Error> {
        let rows = seqs * dims.kv_heads;
        let shape = [rows, slots, dims.head_dim];
        Ok(LayerSlots {
            dims,
            keys: Tensor::zeros_of(ops, "slots", ops.activation(), shape)?,
            values: Tensor::zeros_of(ops, "slots", ops.activation(), shape)?,
            positions: Tensor::of(
                ops,
                "positions of slots",
                &vec![-1i32; rows * slots],
                [rows, slots],
            )?,
            tokens: 0,
        })
    }

    /// The slots after the first `tokens` tokens, gathered from the keys and values of all. A
    /// token's key and value never change once they are computed, so where the log says who is
    /// held, nothing has to be run again.
    pub fn gathered(
        ops: &TuneOps<'_>,
        dims: LayerDims,
        replay: &BatchReplay,
        layer: usize,
        tokens: usize,
        [keys, values]: [&StoredRows; 2],
    ) -> Result<Self, Error> {
        let (on_host, slots) = (replay.positions(layer, tokens), replay.slots(layer));
        let heads = replay.seqs() * dims.kv_heads;
        let positions = Tensor::of(ops, "positions of slots", &on_host, [heads, slots])?;
        let held = Gathered { slots, on_host: &on_host, placed: positions.view() };
        let (keys, values) = (keys.gather(ops, &held)?, values.gather(ops, &held)?);
        Ok(LayerSlots { dims, keys, values, positions, tokens })
    }

    pub fn slots(&self) -> usize {
        self.positions.shape().dims()[1]
    }

    /// Slots of each head that hold a token.
    pub fn filled(&self) -> usize {
        self.tokens.min(self.slots())
    }

    pub fn view(&self) -> ReplaySlots<'_> {
        ReplaySlots {
            keys: self.keys.view(),
            values: self.values.view(),
            positions: self.positions.view(),
            filled: self.filled(),
        }
    }

    /// rows: keys and values of the cell's tokens · chosen: i32 `[seqs * kv_heads, tokens]`
    pub fn place(
        &mut self,
        ops: &TuneOps<'_>,
        at: ChunkAt,
        chosen: Arc<Tensor>,
        rows: [View<'_>; 2],
    ) -> Result<PlacedChunk, Error> {
        assert_eq!(at.position, self.tokens, "a chunk follows those before");
        let heads = at.seqs * at.kv_heads;
        let kept = [heads, at.tokens, at.dim];
        let mut placed = PlacedChunk {
            at,
            slots: chosen,
            keys: Tensor::unset_act(ops, "overwritten rows", kept)?,
            values: Tensor::unset_act(ops, "overwritten rows", kept)?,
            positions: Tensor::of(
                ops,
                "overwritten rows",
                &vec![-1i32; heads * at.tokens],
                [heads, at.tokens],
            )?,
        };
        let kept = KeptRows {
            keys: placed.keys.view_mut(),
            values: placed.values.view_mut(),
            positions: placed.positions.view_mut(),
        };
        let of_slots = [self.keys.view_mut(), self.values.view_mut()];
        let positions = self.positions.view_mut();
        ops.place_rows(&at, placed.slots.view(), rows, of_slots, positions, kept);
        self.tokens += at.tokens;
        Ok(placed)
    }

    /// Takes the last chunk back out of its slots.
    pub fn take_back(
        &mut self,
        ops: &TuneOps<'_>,
        mut placed: PlacedChunk,
        gradients: RowGradients<'_>,
    ) {
        let at = placed.at;
        assert_eq!(at.position + at.tokens, self.tokens, "the last chunk goes first");
        let kept = KeptRows {
            keys: placed.keys.view_mut(),
            values: placed.values.view_mut(),
            positions: placed.positions.view_mut(),
        };
        let of_slots = [self.keys.view_mut(), self.values.view_mut()];
        let positions = self.positions.view_mut();
        ops.take_back_rows(&at, placed.slots.view(), kept, of_slots, positions, gradients);
        self.tokens = at.position;
    }

    /// Stores and reads each row once.
    pub fn round(
        &mut self,
        ops: &TuneOps<'_>,
        [keys, values]: [SlotFormat; 2],
    ) -> Result<(), Error> {
        let dim = self.dims.head_dim;
        for (format, rows) in [(keys, &mut self.keys), (values, &mut self.values)] {
            let Some(quantiser) = format.quantiser() else { continue };
            let flat = [rows.shape().count() / dim, dim];
            let mut rounded = Tensor::unset_act(ops, "slots", rows.shape())?;
            ops.round_rows(rows.as_shape(flat), dim, quantiser, rounded.as_shape_mut(flat));
            *rows = rounded;
        }
        Ok(())
    }
}
