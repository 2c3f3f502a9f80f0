//! Live keys and values written into the slots that will hold them from the next step on.
//!
//! live: keys and values, page dtype `[tokens, kv_heads, dim]`, fp8 rows followed by their scales
//!
//! Roofline: copies `kv_heads (key_dim + value_dim)` numbers per token, less than a thousandth of
//! what the layer's products read, so one thread does it and slots need not be checked for
//! collisions here ([`PagedKv::check`](crate::PagedKv::check) does, once a step).

use terrace_device::{View, ViewMut};

use crate::pages::page_layout::PageLayout;

/// `slots` are tokens and the slot of each that is kept · pages: u8 `[pages, bytes]`
pub(crate) fn commit(
    live: [View<'_>; 2],
    layout: &PageLayout,
    layer: usize,
    slots: impl Iterator<Item = (usize, usize)>,
    mut pages: ViewMut<'_>,
) {
    let [live_k, live_v] = live;
    let [tokens, ..] = live_k.dims::<3>();
    let live_dims = |dim| [tokens, layout.kv_heads, layout.live_row(dim)];
    assert_eq!(live_k.dims(), live_dims(layout.key_dim), "live keys");
    assert_eq!(live_v.dims(), live_dims(layout.value_dim), "live values");
    assert_eq!([live_k.dtype(), live_v.dtype()], [layout.dtype; 2], "live rows have page dtype");
    let [_, page_bytes] = pages.dims();
    assert!(layout.page_bytes() <= page_bytes, "pages do not fit their layout");
    let scale_bytes = layout.scale_bytes();
    let sides = [
        (live_k, layout.key_offset(layer), layout.key_dim),
        (live_v, layout.value_offset(layer), layout.value_dim),
    ];
    for (token, slot) in slots {
        let (page, offset) = (slot / layout.page_tokens, slot % layout.page_tokens);
        let page = pages.row_mut::<u8>(page);
        for (live, start, dim) in sides {
            let row_bytes = dim * layout.dtype.bytes();
            let scales = start + layout.scales_offset(dim);
            let rows = live.row_bytes(token).chunks_exact(row_bytes + scale_bytes);
            for (head, row) in rows.enumerate() {
                let (numbers, scale) = row.split_at(row_bytes);
                let slot = head * layout.page_tokens + offset;
                page[start + slot * row_bytes..][..row_bytes].copy_from_slice(numbers);
                page[scales + slot * scale_bytes..][..scale_bytes].copy_from_slice(scale);
            }
        }
    }
}
