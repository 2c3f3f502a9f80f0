//! Live keys and values written into the slots that will hold them from the next step on.
//!
//! live_k, live_v: page dtype `[tokens, kv_heads, dim]`, fp8 rows followed by their scales ·
//! commit_slots: i32 `[tokens]`
//!
//! Roofline: copies `kv_heads (key_dim + value_dim)` numbers per token, less than a thousandth of
//! what the layer's products read, so one thread does it and slots need not be checked for
//! collisions here ([`PagedKv::check`] does, once a step).

use terrace_device::View;

use crate::pages::paged_kv::PagedKv;

pub(crate) fn commit(live_k: View<'_>, live_v: View<'_>, kv: &mut PagedKv<'_>, layer: usize) {
    let layout = kv.layout;
    let [tokens] = kv.commit_slots.dims();
    let live_dims = |dim| [tokens, layout.kv_heads, layout.live_row(dim)];
    assert_eq!(live_k.dims(), live_dims(layout.key_dim), "live keys");
    assert_eq!(live_v.dims(), live_dims(layout.value_dim), "live values");
    assert_eq!([live_k.dtype(), live_v.dtype()], [layout.dtype; 2], "live rows have page dtype");
    let [_, page_bytes] = kv.pages.dims();
    assert!(layout.page_bytes() <= page_bytes, "pages do not fit their layout");
    let scale_bytes = layout.scale_bytes();
    let sides = [
        (live_k, layout.key_offset(layer), layout.key_dim),
        (live_v, layout.value_offset(layer), layout.value_dim),
    ];
    for (token, &slot) in kv.commit_slots.as_slice::<i32>().iter().enumerate() {
        let slot = usize::try_from(slot).unwrap_or_else(|_| panic!("slot {slot} is negative"));
        let (page, offset) = (slot / layout.page_tokens, slot % layout.page_tokens);
        let page = kv.pages.row_mut::<u8>(page);
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
