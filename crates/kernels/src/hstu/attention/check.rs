//! What holds of the arguments of HSTU attention on every device.

use super::attend_args::{HstuAttendArgs, HstuKv, RowScale};
use super::step_size::HstuStepSize;
use crate::pages::page_layout::PageLayout;

/// Panics unless the shapes fit each other.
pub(super) fn check_shapes(args: &HstuAttendArgs<'_>, kv: &HstuKv<'_>) -> HstuStepSize {
    let PageLayout { kv_heads: heads, key_dim, value_dim, .. } = kv.layout;
    let [tokens, _] = args.q.dims();
    assert_eq!(args.q.dims(), [tokens, heads * key_dim], "q of attention");
    assert_eq!(args.k.dims(), [tokens, heads * key_dim], "k of attention");
    assert_eq!(args.v.dims(), [tokens, heads * value_dim], "v of attention");
    assert_eq!(args.out.dims(), [tokens, heads * value_dim], "out of attention");
    if let RowScale::Multiply(factors) = args.row_scale {
        assert_eq!(factors.dims(), [tokens], "a factor for each row");
    }
    let (size, [_, page_bytes]) = (kv.size(), kv.pages.dims());
    let seqs = size.seqs;
    assert!(kv.layout.page_bytes() <= page_bytes, "pages do not fit their layout");
    assert_eq!(kv.past_tokens.dims(), [seqs], "past_tokens");
    assert_eq!(kv.history_rows.dims(), [seqs], "history_rows");
    assert_eq!(kv.live_starts.dims(), [seqs + 1], "live_starts");
    assert_eq!(kv.commit_slots.dims(), [tokens], "commit_slots");
    assert_eq!(kv.spans.dims(), [tokens, 4], "spans");
    size
}
