//! Where the keys and values of one sequence and one kv head lie: in pages, or live.

use half::{bf16, f16};
use terrace_device::{DType, View};

use crate::paged_kv::PagedKv;

/// Key and value rows by position: the past in pages, then the live rows.
pub(crate) struct KvRows<'a> {
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
    live: View<'a>,
    row_bytes: usize,
    /// From a page's start to this head's first slot.
    page_offset: usize,
    /// From a live row's start to this head.
    live_offset: usize,
}

impl<'a> KvRows<'a> {
    pub(crate) fn new(
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
            Side {
                live,
                row_bytes,
                page_offset: offset + kv_head * layout.page_tokens * row_bytes,
                live_offset: kv_head * row_bytes,
            }
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

    /// Position of a live row of this sequence.
    pub(crate) fn position_of(&self, token: usize) -> usize {
        self.past + token - self.live_start
    }

    pub(crate) fn key(&self, position: usize) -> &'a [u8] {
        self.row(&self.keys, position)
    }

    pub(crate) fn value(&self, position: usize) -> &'a [u8] {
        self.row(&self.values, position)
    }

    pub(crate) fn key_element(&self, position: usize, i: usize) -> f32 {
        element(self.dtype, self.key(position), i)
    }

    pub(crate) fn value_element(&self, position: usize, i: usize) -> f32 {
        element(self.dtype, self.value(position), i)
    }

    fn row(&self, side: &Side<'a>, position: usize) -> &'a [u8] {
        let (bytes, start) = match position.checked_sub(self.past) {
            Some(live) => (side.live.row_bytes(self.live_start + live), side.live_offset),
            None => {
                let page = self.table[position / self.page_tokens] as usize;
                let offset = position % self.page_tokens;
                (self.pages.row_bytes(page), side.page_offset + offset * side.row_bytes)
            }
        };
        &bytes[start..start + side.row_bytes]
    }
}

fn element(dtype: DType, row: &[u8], i: usize) -> f32 {
    match dtype {
        DType::F32 => {
            f32::from_le_bytes([row[4 * i], row[4 * i + 1], row[4 * i + 2], row[4 * i + 3]])
        }
        DType::F16 => f16::from_le_bytes([row[2 * i], row[2 * i + 1]]).to_f32(),
        DType::Bf16 => bf16::from_le_bytes([row[2 * i], row[2 * i + 1]]).to_f32(),
        other => panic!("pages of {}", other.name()),
    }
}
