//! Live keys and values that are kept, written into their slots.

use terrace_device::View;

use super::attend_args::HstuKv;

/// live: page dtype `[tokens, heads, dim]` of keys and of values, fp8 rows followed by their scales
pub(super) fn commit(live: [View<'_>; 2], kv: &mut HstuKv<'_>, layer: usize) {
    let layout = kv.layout;
    let scale_bytes = layout.scale_bytes();
    let sides = [
        (live[0], layout.key_offset(layer), layout.key_dim),
        (live[1], layout.value_offset(layer), layout.value_dim),
    ];
    for (token, &slot) in kv.commit_slots.as_slice::<i32>().iter().enumerate() {
        let Ok(slot) = usize::try_from(slot) else { continue };
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
