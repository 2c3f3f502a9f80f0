//! Live keys and values written into the slots that will hold them from the next step on.
//!
//! live_k, live_v: page dtype `[tokens, kv_heads, dim]` · commit_slots: i32 `[tokens]`
//!
//! Roofline: copies `kv_heads (key_dim + value_dim)` numbers per token, less than a thousandth of
//! what the layer's products read, so one thread does it and slots need not be checked for
//! collisions here ([`PagedKv::check`] does, once a step).

use terrace_device::View;

use crate::paged_kv::PagedKv;

pub(crate) fn commit(live_k: View<'_>, live_v: View<'_>, kv: &mut PagedKv<'_>, layer: usize) {
    let layout = kv.layout;
    let [tokens] = kv.commit_slots.dims();
    assert_eq!(live_k.dims(), [tokens, layout.kv_heads, layout.key_dim], "live keys");
    assert_eq!(live_v.dims(), [tokens, layout.kv_heads, layout.value_dim], "live values");
    assert_eq!([live_k.dtype(), live_v.dtype()], [layout.dtype; 2], "live rows have page dtype");
    let [_, page_bytes] = kv.pages.dims();
    assert_eq!(page_bytes, layout.page_bytes(), "pages do not fit their layout");
    let bytes = layout.dtype.bytes();
    let sides = [
        (live_k, layout.key_offset(layer), layout.key_dim * bytes),
        (live_v, layout.value_offset(layer), layout.value_dim * bytes),
    ];
    for (token, &slot) in kv.commit_slots.as_slice::<i32>().iter().enumerate() {
        let slot = usize::try_from(slot).unwrap_or_else(|_| panic!("slot {slot} is negative"));
        let (page, offset) = (slot / layout.page_tokens, slot % layout.page_tokens);
        let page = kv.pages.row_mut::<u8>(page);
        for (live, start, row_bytes) in sides {
            for (head, row) in live.row_bytes(token).chunks_exact(row_bytes).enumerate() {
                let slot_start = start + (head * layout.page_tokens + offset) * row_bytes;
                page[slot_start..slot_start + row_bytes].copy_from_slice(row);
            }
        }
    }
}
