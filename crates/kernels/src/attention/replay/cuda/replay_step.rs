//! A chunk's queries and slots, as every kernel of replay takes them.

use terrace_device::{DType, View};

use crate::attention::replay::args::ReplayQueries;
use crate::cuda::{extent, kernel_params};

kernel_params! {
    /// Twin of `ReplayStep` in `replay.cuh`.
    pub(super) struct ReplayStep: 80 bytes {
        query: u64,
        keys: u64,
        values: u64,
        positions: u64,
        query_stride: u32,
        row_tokens: u32,
        first: u32,
        tokens: u32,
        position: u32,
        heads: u32,
        group: u32,
        dim: u32,
        slots: u32,
        filled: u32,
        window: u32,
        scale: f32,
    }
}

/// Nothing lies so far behind a query.
const NO_WINDOW: u32 = 1 << 31;

impl ReplayStep {
    /// Checks shapes and types: queries, keys and values are act.
    #[track_caller]
    pub(super) fn new(queries: &ReplayQueries<'_>, activation: DType) -> Self {
        queries.check();
        let ReplayQueries { at, query, slots, scale, window } = *queries;
        let [_, slot_count, dim] = slots.keys.dims();
        assert!(dim > 0, "heads of no numbers");
        let types = [query, slots.keys, slots.values].map(|view| view.dtype());
        assert_eq!(types, [activation; 3], "types of queries, keys and values");
        assert_eq!(slots.positions.dtype(), DType::I32, "type of positions");
        let strides = [slots.keys, slots.values].map(|view| view.row_stride());
        assert_eq!(strides, [slot_count * dim; 2], "slots lie one behind the other");
        assert_eq!(slots.positions.row_stride(), slot_count, "positions lie as their slots");
        ReplayStep {
            query: query.device_address(),
            keys: slots.keys.device_address(),
            values: slots.values.device_address(),
            positions: slots.positions.device_address(),
            query_stride: extent(query.row_stride()),
            row_tokens: extent(at.row_tokens),
            first: extent(at.first),
            tokens: extent(at.tokens),
            position: position(at.position + at.tokens) - extent(at.tokens),
            heads: extent(at.heads),
            group: extent(at.group_heads()),
            dim: extent(dim),
            slots: extent(slot_count),
            filled: extent(slots.filled),
            window: window.and_then(|window| i32::try_from(window).ok()).map_or(NO_WINDOW, as_u32),
            scale,
        }
    }
}

fn as_u32(window: i32) -> u32 {
    window.unsigned_abs()
}

/// A position as kernels have it, which are signed.
#[track_caller]
pub(super) fn position(position: usize) -> u32 {
    assert!(i32::try_from(position).is_ok(), "position {position}");
    extent(position)
}

/// Arrays of f32 whose rows, of the outermost dimension, lie one behind the other.
#[track_caller]
pub(super) fn check_dense(view: View<'_>, what: &str) {
    assert_eq!(view.dtype(), DType::F32, "type of {what}");
    // Asserts that rows are not strided.
    let _bytes = view.dense_bytes();
}
