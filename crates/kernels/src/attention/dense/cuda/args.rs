//! Arguments of attention as all its kernels take them.

use terrace_device::DType;

use crate::attention::attend_args::AttendArgs;
use crate::cuda::extent;

/// Query heads of one kv head.
pub(super) fn group(args: &AttendArgs<'_, '_>) -> u32 {
    extent(args.heads / args.kv.layout.kv_heads)
}

/// 0 for none.
pub(super) fn window(args: &AttendArgs<'_, '_>) -> u32 {
    args.window.map_or(0, |window| extent(window.min(i32::MAX as usize)))
}

pub(super) fn out_is_f32(args: &AttendArgs<'_, '_>) -> u32 {
    u32::from(args.out.dtype() == DType::F32)
}

/// The sequence of each row, or 0 where row `i` is sequence `i`'s: then -1 past tokens mean none.
pub(super) fn row_seqs(args: &AttendArgs<'_, '_>) -> u64 {
    let kv = &*args.kv;
    let [tokens] = kv.commit_slots.dims();
    if kv.singles == tokens {
        return 0;
    }
    assert_eq!(kv.row_seqs.dims(), [tokens], "row_seqs");
    kv.row_seqs.device_address()
}
