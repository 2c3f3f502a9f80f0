//! Launches `replay_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::replay_step::position;
use crate::attention::replay::args::{ChunkAt, KeptRows, RowGradients};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(super) struct RowKernels {
    place: TypedKernel<ReplayRowsParams>,
    take_back: TypedKernel<ReplayRowsParams>,
    gather: TypedKernel<ReplayGatherParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `ReplayRowsParams` in `replay_rows.cu`.
    struct ReplayRowsParams: 144 bytes {
        chosen: u64,
        positions: u64,
        kept_positions: u64,
        of_slots: [u64; 2],
        kept: [u64; 2],
        rows: [u64; 2],
        d_slots: [u64; 2],
        d_rows: [u64; 2],
        row_strides: [u32; 2],
        row_tokens: u32,
        first: u32,
        tokens: u32,
        position: u32,
        kv_heads: u32,
        dim: u32,
        slots: u32,
    }
}

kernel_params! {
    /// Twin of `ReplayGatherParams` in `replay_rows.cu`.
    struct ReplayGatherParams: 48 bytes {
        rows: u64,
        positions: u64,
        out: u64,
        row_stride: u32,
        tokens: u32,
        kv_heads: u32,
        dim: u32,
        slots: u32,
    }
}

/// Warps of a block, each of which has a row.
const WARPS: usize = 8;

impl RowKernels {
    pub(super) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "replay_rows", activation.name())?;
        Ok(RowKernels {
            place: TypedKernel::find(&module, "replay_place")?,
            take_back: TypedKernel::find(&module, "replay_take_back")?,
            gather: TypedKernel::find(&module, "replay_gather")?,
            activation,
        })
    }

    /// As the op on the CPU, in act.
    pub(super) fn place_rows(
        &self,
        at: &ChunkAt,
        chosen: View<'_>,
        rows: [View<'_>; 2],
        of_slots: &[ViewMut<'_>; 2],
        positions: &ViewMut<'_>,
        kept: &KeptRows<'_>,
    ) {
        for rows in rows {
            at.check_rows(rows, at.kv_heads, "rows");
            assert_eq!(rows.dtype(), self.activation, "type of rows");
        }
        let params = ReplayRowsParams {
            rows: rows.map(|rows| rows.device_address()),
            row_strides: rows.map(|rows| extent(rows.row_stride())),
            ..self.params(at, chosen, of_slots, positions, kept)
        };
        // SAFETY: `params` and this function have checked shapes and types; that slots are among
        // those that there are, and different ones, is the promise of whoever chose them.
        unsafe { self.place.launch(grid(at, at.tokens), 32 * WARPS, &params) };
    }

    /// As the op on the CPU, in act; gradients are f32.
    pub(super) fn take_back_rows(
        &self,
        at: &ChunkAt,
        chosen: View<'_>,
        kept: &KeptRows<'_>,
        of_slots: &[ViewMut<'_>; 2],
        positions: &ViewMut<'_>,
        gradients: &RowGradients<'_>,
    ) {
        let RowGradients { slot_keys, slot_values, keys, values } = gradients;
        for d_slots in [slot_keys, slot_values] {
            assert_eq!(d_slots.dims::<3>(), of_slots[0].dims(), "gradients in slots");
            assert_eq!(d_slots.as_view().row_stride(), of_slots[0].row_stride(), "their stride");
        }
        for d_rows in [keys, values] {
            at.check_rows(d_rows.as_view(), at.kv_heads, "gradients of rows");
        }
        let are_f32 =
            [slot_keys, slot_values, keys, values].iter().all(|view| view.dtype() == DType::F32);
        assert!(are_f32, "types of gradients");
        let params = ReplayRowsParams {
            d_slots: [slot_keys, slot_values].map(|view| view.device_address()),
            d_rows: [keys, values].map(|view| view.device_address()),
            row_strides: [keys, values].map(|view| extent(view.row_stride())),
            ..self.params(at, chosen, of_slots, positions, kept)
        };
        // SAFETY: as for `place_rows`.
        unsafe { self.take_back.launch(grid(at, at.tokens), 32 * WARPS, &params) };
    }

    /// Without rows and their gradients.
    #[track_caller]
    fn params(
        &self,
        at: &ChunkAt,
        chosen: View<'_>,
        of_slots: &[ViewMut<'_>; 2],
        positions: &ViewMut<'_>,
        kept: &KeptRows<'_>,
    ) -> ReplayRowsParams {
        at.check();
        let rows = at.seqs * at.kv_heads;
        let [_, slots, _] = of_slots[0].dims();
        let kept_sides = [&kept.keys, &kept.values];
        for (of_slots, kept) in of_slots.iter().zip(kept_sides) {
            assert_eq!(of_slots.dims(), [rows, slots, at.dim], "slots of a chunk");
            assert_eq!(kept.dims(), [rows, at.tokens, at.dim], "kept rows of a chunk");
            assert_eq!([of_slots.dtype(), kept.dtype()], [self.activation; 2], "types of slots");
            let strides = [of_slots.row_stride(), kept.row_stride()];
            assert_eq!(strides, [slots * at.dim, at.tokens * at.dim], "strides of slots");
        }
        let of_tokens = [chosen, kept.positions.as_view()];
        for of_tokens in of_tokens {
            assert_eq!(of_tokens.dims(), [rows, at.tokens], "slots of a chunk");
            assert_eq!(of_tokens.row_stride(), at.tokens, "strides of a chunk's slots");
        }
        assert_eq!(positions.dims(), [rows, slots], "positions of slots");
        assert_eq!(positions.row_stride(), slots, "strides of positions");
        let are_i32 = of_tokens.iter().all(|view| view.dtype() == DType::I32);
        assert!(are_i32 && positions.dtype() == DType::I32, "types of positions");
        position(at.position + at.tokens);
        ReplayRowsParams {
            chosen: chosen.device_address(),
            positions: positions.device_address(),
            kept_positions: kept.positions.device_address(),
            of_slots: [of_slots[0].device_address(), of_slots[1].device_address()],
            kept: kept_sides.map(|kept| kept.device_address()),
            rows: [0; 2],
            d_slots: [0; 2],
            d_rows: [0; 2],
            row_strides: [0; 2],
            row_tokens: extent(at.row_tokens),
            first: extent(at.first),
            tokens: extent(at.tokens),
            position: position(at.position),
            kv_heads: extent(at.kv_heads),
            dim: extent(at.dim),
            slots: extent(slots),
        }
    }

    /// rows: act `[seqs * tokens, kv_heads * dim]` · positions: i32 `[seqs * kv_heads, slots]`,
    /// negative for none · out: act `[seqs * kv_heads, slots, dim]`, zeros where there is none
    pub(super) fn gather_slots(&self, rows: View<'_>, positions: View<'_>, out: &ViewMut<'_>) {
        let [of_heads, slots, dim] = out.dims();
        let [token_rows, columns] = rows.dims();
        assert!(dim > 0 && columns.is_multiple_of(dim), "{columns} columns of heads of {dim}");
        let kv_heads = columns / dim;
        assert!(of_heads.is_multiple_of(kv_heads), "{of_heads} rows of {kv_heads} heads");
        let seqs = (of_heads / kv_heads).max(1);
        assert!(token_rows.is_multiple_of(seqs), "{token_rows} rows of {seqs} sequences");
        assert_eq!(positions.dims(), [of_heads, slots], "positions of gather_slots");
        let strides = [positions.row_stride(), out.row_stride()];
        assert_eq!(strides, [slots, slots * dim], "strides of gather_slots");
        assert_eq!(positions.dtype(), DType::I32, "type of positions");
        assert_eq!([rows.dtype(), out.dtype()], [self.activation; 2], "types of gather_slots");
        let params = ReplayGatherParams {
            rows: rows.device_address(),
            positions: positions.device_address(),
            out: out.device_address(),
            row_stride: extent(rows.row_stride()),
            tokens: extent(token_rows / seqs),
            kv_heads: extent(kv_heads),
            dim: extent(dim),
            slots: extent(slots),
        };
        let grid = [slots.div_ceil(WARPS), of_heads, 1];
        // SAFETY: shapes and types were just checked; that positions are among the tokens is the
        // promise of whoever made them.
        unsafe { self.gather.launch(grid, 32 * WARPS, &params) };
    }
}

fn grid(at: &ChunkAt, rows: usize) -> [usize; 3] {
    [rows.div_ceil(WARPS), at.seqs * at.kv_heads, 1]
}
