//! Keys, values and positions in the slots of one layer, for all sequences of a batch.

use terrace_cache::policy::SlotFormat;
use terrace_device::View;
use terrace_kernels::{ChunkAt, KeptRows, ReplaySlots, RowGradients, TuneOps};

use super::batch_replay::BatchReplay;
use crate::checkpoints::StoredRows;
use crate::error::Error;
use crate::model::LayerDims;
use crate::tensor::Tensor;

pub(crate) struct LayerSlots {
    dims: LayerDims,
    /// f32 `[seqs * kv_heads, slots, head_dim]`
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
    slots: Tensor,
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
            keys: Tensor::zeros(ops, "slots", shape)?,
            values: Tensor::zeros(ops, "slots", shape)?,
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
        let mut slots = Self::empty(ops, dims, replay.seqs(), replay.slots(layer))?;
        let positions = replay.positions(layer, tokens);
        let per_head = replay.slots(layer);
        for (rows, out) in [(keys, &mut slots.keys), (values, &mut slots.values)] {
            let out = out.numbers_mut::<f32>().chunks_exact_mut(dims.head_dim);
            for (i, (position, out)) in positions.iter().zip(out).enumerate() {
                let Ok(position) = usize::try_from(*position) else { continue };
                let (seq, head) = (i / per_head / dims.kv_heads, i / per_head % dims.kv_heads);
                rows.read_block(seq, position, head, out);
            }
        }
        slots.positions.numbers_mut().copy_from_slice(&positions);
        slots.tokens = tokens;
        Ok(slots)
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

    /// rows: keys and values of the cell's tokens · chosen: `[seqs * kv_heads, tokens]`
    pub fn place(
        &mut self,
        ops: &TuneOps<'_>,
        at: ChunkAt,
        chosen: &[i32],
        rows: [View<'_>; 2],
    ) -> Result<PlacedChunk, Error> {
        assert_eq!(at.position, self.tokens, "a chunk follows those before");
        let heads = at.seqs * at.kv_heads;
        let kept = [heads, at.tokens, at.dim];
        let mut placed = PlacedChunk {
            at,
            slots: Tensor::of(ops, "slots of a chunk", chosen, [heads, at.tokens])?,
            keys: Tensor::unset(ops, "overwritten rows", kept)?,
            values: Tensor::unset(ops, "overwritten rows", kept)?,
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
    pub fn round(&mut self, [keys, values]: [SlotFormat; 2]) {
        let (dim, filled) = (self.dims.head_dim, self.filled());
        let slots = self.slots();
        for (format, rows) in [(keys, &mut self.keys), (values, &mut self.values)] {
            for head in rows.numbers_mut::<f32>().chunks_exact_mut(slots * dim) {
                for row in head[..filled * dim].chunks_exact_mut(dim) {
                    format.pass(row);
                }
            }
        }
    }
}
