//! Where the keys and values of one sequence and one kv head lie: in pages, or live.

use std::ops::Range;

use half::{bf16, f16};
use terrace_device::{DType, View};

#[cfg(target_arch = "x86_64")]
use crate::attention::blocks::{BLOCK_KEYS, PromptWork};
use crate::attention::blocks::{BlockRows, RowType};
use crate::cpu::lanes::Lanes;
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::PanelLanes;
use crate::linear::weight_format::WeightFormat;
use crate::pages::page_layout::PageLayout;
use crate::quantise::byte_format::ByteFormat;

/// Key and value rows by position: the past in pages, then the live rows.
pub(crate) struct KvRows<'a> {
    layout: PageLayout,
    past: usize,
    live_start: usize,
    pages: View<'a>,
    table: &'a [i32],
    keys: Side<'a>,
    values: Side<'a>,
}

/// The rows of one sequence, of all heads and layers.
#[derive(Clone, Copy)]
pub(crate) struct SeqRows<'a> {
    pub(crate) layout: PageLayout,
    /// u8 `[pages, bytes]`
    pub(crate) pages: View<'a>,
    /// Physical page of each logical one.
    pub(crate) table: &'a [i32],
    /// Tokens in slots.
    pub(crate) past: usize,
    /// The first live row of the sequence in the batch.
    pub(crate) live_start: usize,
}

/// Where one of the two (keys or values) lies.
struct Side<'a> {
    dim: usize,
    live: View<'a>,
    row_bytes: usize,
    /// From a page's start to this head's first slot, and to the scale of that one.
    page_offset: usize,
    scale_offset: usize,
    /// From a live row's start to this head.
    live_offset: usize,
}

/// Rows that lie one after the other, and as many scales if they are fp8.
struct Run<'a> {
    rows: &'a [u8],
    scales: &'a [u8],
}

impl<'a> KvRows<'a> {
    pub(crate) fn new(
        source: SeqRows<'a>,
        [live_k, live_v]: [View<'a>; 2],
        layer: usize,
        kv_head: usize,
    ) -> Self {
        let SeqRows { layout, pages, table, past, live_start } = source;
        let side = |live, dim: usize, offset| {
            let row_bytes = dim * layout.dtype.bytes();
            let first_slot = kv_head * layout.page_tokens;
            let scales = offset + layout.scales_offset(dim);
            Side {
                dim,
                live,
                row_bytes,
                page_offset: offset + first_slot * row_bytes,
                scale_offset: scales + first_slot * layout.scale_bytes(),
                live_offset: kv_head * (row_bytes + layout.scale_bytes()),
            }
        };
        KvRows {
            layout,
            past,
            live_start,
            pages,
            table,
            keys: side(live_k, layout.key_dim, layout.key_offset(layer)),
            values: side(live_v, layout.value_dim, layout.value_offset(layer)),
        }
    }

    pub(crate) fn key_dim(&self) -> usize {
        self.keys.dim
    }

    pub(crate) fn value_dim(&self) -> usize {
        self.values.dim
    }

    /// Position of a live row of this sequence.
    pub(crate) fn position_of(&self, token: usize) -> usize {
        self.past + token - self.live_start
    }

    /// Writes the keys of `positions`, widened to f32, one after the other.
    #[inline(always)]
    pub(crate) fn widen_keys<L: Lanes>(&self, lanes: L, positions: Range<usize>, out: &mut [f32]) {
        self.widen(lanes, &self.keys, positions, out);
    }

    #[inline(always)]
    pub(crate) fn widen_values<L: Lanes>(
        &self,
        lanes: L,
        positions: Range<usize>,
        out: &mut [f32],
    ) {
        self.widen(lanes, &self.values, positions, out);
    }

    /// Fetches the keys and values of `positions`, which lie in `block`, for the matrix units;
    /// others of the block become 0.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn pack_block<S: PanelLanes>(
        &self,
        lanes: S,
        work: &mut PromptWork<'_>,
        block: usize,
        positions: Range<usize>,
    ) {
        let (base, before) = (lanes.floats(), positions.start - block);
        if positions.len() < BLOCK_KEYS {
            work.wide_keys.fill(0.0);
            work.wide_values.fill(0.0);
        }
        let keys = &mut work.wide_keys[before * self.key_dim()..];
        self.widen_keys(base, positions.clone(), keys);
        self.widen_values(base, positions, &mut work.wide_values[before * self.value_dim()..]);
        work.pack_keys(lanes);
        work.pack_values(lanes);
    }

    /// How rows are read where they lie; `None` where they must be widened.
    pub(crate) fn kind(&self) -> Option<RowType> {
        match self.layout.dtype {
            DType::F32 => Some(RowType::F32),
            DType::F16 => Some(RowType::F16),
            DType::Bf16 => Some(RowType::Bf16),
            _ => None,
        }
    }

    /// Room for the keys and the values of a block.
    pub(crate) fn room(&self, kind: RowType) -> [BlockRows<'a>; 2] {
        [&self.keys, &self.values].map(|side| BlockRows::new(kind, side.dim))
    }

    /// The keys and the values of `positions`, at most a block of them, where they lie.
    pub(crate) fn find(&self, positions: &Range<usize>, [keys, values]: &mut [BlockRows<'a>; 2]) {
        self.find_side(&self.keys, positions, keys);
        self.find_side(&self.values, positions, values);
    }

    /// Asks for the keys of those of `positions` that are in pages.
    #[inline(always)]
    pub(crate) fn prefetch_keys<L: Lanes>(&self, lanes: L, positions: Range<usize>) {
        self.prefetch(lanes, &self.keys, positions);
    }

    #[inline(always)]
    pub(crate) fn prefetch_values<L: Lanes>(&self, lanes: L, positions: Range<usize>) {
        self.prefetch(lanes, &self.values, positions);
    }

    pub(crate) fn key_element(&self, position: usize, i: usize) -> f32 {
        self.run(&self.keys, position..position + 1).element(self.layout.dtype, i)
    }

    pub(crate) fn value_element(&self, position: usize, i: usize) -> f32 {
        self.run(&self.values, position..position + 1).element(self.layout.dtype, i)
    }

    #[inline(always)]
    fn widen<L: Lanes>(&self, lanes: L, side: &Side<'a>, positions: Range<usize>, out: &mut [f32]) {
        let mut written = 0;
        let mut position = positions.start;
        while position < positions.end {
            let run = self.run(side, position..positions.end);
            let rows = run.rows.len() / side.row_bytes;
            let count = rows * side.dim;
            let out = &mut out[written..written + count];
            match ByteFormat::of(self.layout.dtype) {
                Some(format) => run.widen_fp8(format, side.dim, out),
                None => lanes.unpack(weight_format(self.layout.dtype), run.rows, out),
            }
            written += count;
            position += rows;
        }
    }

    fn find_side(&self, side: &Side<'a>, positions: &Range<usize>, rows: &mut BlockRows<'a>) {
        rows.clear();
        while rows.len() < positions.len() {
            let position = positions.start + rows.len();
            rows.extend(self.run(side, position..positions.end).rows);
        }
    }

    #[inline(always)]
    fn prefetch<L: Lanes>(&self, lanes: L, side: &Side<'a>, positions: Range<usize>) {
        let (mut position, end) = (positions.start, positions.end.min(self.past));
        while position < end {
            let rows = self.run(side, position..end).rows;
            lanes.prefetch_bytes(rows.as_ptr(), rows.len());
            position += rows.len() / side.row_bytes;
        }
    }

    /// The rows from `positions.start` on that lie one after the other: up to the end of a page,
    /// or one live row.
    #[inline]
    fn run(&self, side: &Side<'a>, positions: Range<usize>) -> Run<'a> {
        let (position, scale_bytes) = (positions.start, self.layout.scale_bytes());
        if let Some(live) = position.checked_sub(self.past) {
            let row = &side.live.row_bytes(self.live_start + live)[side.live_offset..];
            let (rows, scales) = row[..side.row_bytes + scale_bytes].split_at(side.row_bytes);
            return Run { rows, scales };
        }
        let page_tokens = self.layout.page_tokens;
        let (page, offset) = (position / page_tokens, position % page_tokens);
        let rows = (page_tokens - offset).min(positions.end.min(self.past) - position);
        let page = self.pages.row_bytes(self.table[page] as usize);
        Run {
            rows: &page[side.page_offset + offset * side.row_bytes..][..rows * side.row_bytes],
            scales: &page[side.scale_offset + offset * scale_bytes..][..rows * scale_bytes],
        }
    }
}

impl Run<'_> {
    #[inline(always)]
    fn widen_fp8(&self, format: &ByteFormat, dim: usize, out: &mut [f32]) {
        let rows = self.rows.chunks_exact(dim).zip(self.scales.as_chunks().0);
        for ((row, scale), out) in rows.zip(out.chunks_exact_mut(dim)) {
            let scale = f32::from_le_bytes(*scale);
            for (out, number) in out.iter_mut().zip(row) {
                *out = format.decode(*number, scale);
            }
        }
    }

    /// Element `i` of the first row.
    fn element(&self, dtype: DType, i: usize) -> f32 {
        match dtype {
            DType::F32 => f32::from_le_bytes(self.rows.as_chunks().0[i]),
            DType::F16 => f16::from_le_bytes(self.rows.as_chunks().0[i]).to_f32(),
            DType::Bf16 => bf16::from_le_bytes(self.rows.as_chunks().0[i]).to_f32(),
            other => {
                let format = ByteFormat::of(other).expect("pages hold numbers");
                format.decode(self.rows[i], f32::from_le_bytes(self.scales.as_chunks().0[0]))
            }
        }
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
