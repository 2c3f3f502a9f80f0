//! Whole pages copied inside one pool, for a holder that must change a shared page.
//!
//! pages: u8 `[pages, page_bytes]` · pairs: i32 `[copies, 2]`, each (from, to), done in order.
//!
//! Roofline: `2 page_bytes` of memory traffic per pair. Copies are rare (one per forked
//! sequence), so they are not shared among threads.

pub(crate) mod cuda;

use terrace_device::{View, ViewMut};

pub(crate) fn copy_pages(mut pages: ViewMut<'_>, pairs: View<'_>) {
    let [page_count, page_bytes] = pages.dims();
    let [_, 2] = pairs.dims() else { panic!("pairs of copy_pages: {:?}", pairs.shape()) };
    let bytes = pages.as_mut_slice::<u8>();
    for pair in pairs.as_slice::<i32>().chunks_exact(2) {
        let [from, to] = [pair[0], pair[1]].map(|page| {
            let known = usize::try_from(page).ok().filter(|&page| page < page_count);
            known.unwrap_or_else(|| panic!("page {page} of {page_count}"))
        });
        bytes.copy_within(from * page_bytes..(from + 1) * page_bytes, to * page_bytes);
    }
}
