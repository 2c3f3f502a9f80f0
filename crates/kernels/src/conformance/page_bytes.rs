//! The bytes of pages, put there without the code that is checked.

use terrace_device::DType;

use super::numbers::encoded;
use crate::pages::page_layout::PageLayout;

/// Puts one token where the layout says, spelled out here once more on purpose.
///
/// pages: `[pages, page_bytes]` · rows: its key and its value, `[kv_heads, dim]` each
pub(super) fn write_token(
    pages: &mut [u8],
    page_bytes: usize,
    layout: &PageLayout,
    layer: usize,
    slot: usize,
    rows: [&[f32]; 2],
) {
    let PageLayout { kv_heads, page_tokens, key_dim, value_dim, dtype, .. } = *layout;
    let (page, offset) = (slot / page_tokens, slot % page_tokens);
    let side_rows = kv_heads * page_tokens;
    let scales_bytes = match dtype {
        DType::F8E4m3 | DType::F8E5m2 | DType::I8 => (4 * side_rows).next_multiple_of(16),
        _ => 0,
    };
    let [key_bytes, value_bytes] =
        [key_dim, value_dim].map(|dim| side_rows * dim * dtype.bytes() + scales_bytes);
    let page = &mut pages[page * page_bytes..];
    let (keys, values) = page[layer * (key_bytes + value_bytes)..].split_at_mut(key_bytes);
    for (side, dim, heads) in [(keys, key_dim, rows[0]), (values, value_dim, rows[1])] {
        for (head, row) in heads.chunks_exact(dim).enumerate() {
            let slot = head * page_tokens + offset;
            let (numbers, scale) = encoded(row, dtype);
            side[slot * numbers.len()..][..numbers.len()].copy_from_slice(&numbers);
            let at = side_rows * numbers.len() + slot * scale.len();
            side[at..at + scale.len()].copy_from_slice(&scale);
        }
    }
}
