//! Where the keys and values of one sequence and one kv head lie: in pages, or live.

use std::ops::Range;

use half::{bf16, f16};
use terrace_device::{DType, View};

use crate::lanes::Lanes;
use crate::paged_kv::PagedKv;
use crate::weight_format::WeightFormat;

/// Key and value rows by position: the past in pages, then the live rows.
pub(super) struct KvRows<'a> {
    dtype: DType,
    past: usize,
    live_start: usize,
    page_tokens: usize,
    pages: View<'a>,
    table: &'a [i32],
    keys: Side<'a>,
    values: Side<'a>,
}

/// Where one of the two (keys or values) lies.
struct Side<'a> {
    dim: usize,
    live: View<'a>,
    row_bytes: usize,
    /// From a page's start to this head's first slot.
    page_offset: usize,
    /// From a live row's start to this head.
    live_offset: usize,
}

impl<'a> KvRows<'a> {
    pub(super) fn new(
        kv: &'a PagedKv<'_>,
        live_k: View<'a>,
        live_v: View<'a>,
        layer: usize,
        seq: usize,
        kv_head: usize,
    ) -> Self {
        let layout = kv.layout;
        let side = |live, dim: usize, offset| {
            let row_bytes = dim * layout.dtype.bytes();
            let page_offset = offset + kv_head * layout.page_tokens * row_bytes;
            Side { dim, live, row_bytes, page_offset, live_offset: kv_head * row_bytes }
        };
        KvRows {
            dtype: layout.dtype,
            past: kv.past_tokens.as_slice::<i32>()[seq] as usize,
            live_start: kv.live_starts.as_slice::<i32>()[seq] as usize,
            page_tokens: layout.page_tokens,
            pages: kv.pages.as_view(),
            table: kv.block_tables.row(seq),
            keys: side(live_k, layout.key_dim, layout.key_offset(layer)),
            values: side(live_v, layout.value_dim, layout.value_offset(layer)),
        }
    }

    pub(super) fn key_dim(&self) -> usize {
        self.keys.dim
    }

    pub(super) fn value_dim(&self) -> usize {
        self.values.dim
    }

    /// Position of a live row of this sequence.
    pub(super) fn position_of(&self, token: usize) -> usize {
        self.past + token - self.live_start
    }

    /// Writes the keys of `positions`, widened to f32, one after the other.
    #[inline(always)]
    pub(super) fn widen_keys<L: Lanes>(&self, lanes: L, positions: Range<usize>, out: &mut [f32]) {
        self.widen(lanes, &self.keys, positions, out);
    }

    #[inline(always)]
    pub(super) fn widen_values<L: Lanes>(
        &self,
        lanes: L,
        positions: Range<usize>,
        out: &mut [f32],
    ) {
        self.widen(lanes, &self.values, positions, out);
    }

    pub(super) fn key_element(&self, position: usize, i: usize) -> f32 {
        element(self.dtype, self.run(&self.keys, position..position + 1), i)
    }

    pub(super) fn value_element(&self, position: usize, i: usize) -> f32 {
        element(self.dtype, self.run(&self.values, position..position + 1), i)
    }

    #[inline(always)]
    fn widen<L: Lanes>(&self, lanes: L, side: &Side<'a>, positions: Range<usize>, out: &mut [f32]) {
        let mut written = 0;
        let mut position = positions.start;
        while position < positions.end {
            let run = self.run(side, position..positions.end);
            let rows = run.len() / side.row_bytes;
            let count = rows * side.dim;
            lanes.unpack(weight_format(self.dtype), run, &mut out[written..written + count]);
            written += count;
            position += rows;
        }
    }

    /// The rows from `positions.start` on that lie one after the other: up to the end of a page,
    /// or one live row.
    fn run(&self, side: &Side<'a>, positions: Range<usize>) -> &'a [u8] {
        let position = positions.start;
        if let Some(live) = position.checked_sub(self.past) {
            let row = side.live.row_bytes(self.live_start + live);
            return &row[side.live_offset..side.live_offset + side.row_bytes];
        }
        let (page, offset) = (position / self.page_tokens, position % self.page_tokens);
        let rows = (self.page_tokens - offset).min(positions.end.min(self.past) - position);
        let start = side.page_offset + offset * side.row_bytes;
        let page = self.pages.row_bytes(self.table[page] as usize);
        &page[start..start + rows * side.row_bytes]
    }
}

fn weight_format(dtype: DType) -> WeightFormat {
    match dtype {
        DType::F32 => WeightFormat::F32,
        DType::F16 => WeightFormat::F16,
        DType::Bf16 => WeightFormat::Bf16,
        other => panic!("pages of {}", other.name()),
    }
}

fn element(dtype: DType, row: &[u8], i: usize) -> f32 {
    match dtype {
        DType::F32 => f32::from_le_bytes(row.as_chunks().0[i]),
        DType::F16 => f16::from_le_bytes(row.as_chunks().0[i]).to_f32(),
        DType::Bf16 => bf16::from_le_bytes(row.as_chunks().0[i]).to_f32(),
        other => panic!("pages of {}", other.name()),
    }
}
