//! Which sequence each row of a step is of, as kernels take it.

use crate::pages::paged_kv::PagedKv;

/// The sequence of each row, or 0 where row `i` is sequence `i`'s: then -1 past tokens mean none.
pub(super) fn row_seqs(kv: &PagedKv<'_>) -> u64 {
    let [tokens] = kv.commit_slots.dims();
    if kv.singles == tokens {
        return 0;
    }
    assert_eq!(kv.row_seqs.dims(), [tokens], "row_seqs");
    kv.row_seqs.device_address()
}
