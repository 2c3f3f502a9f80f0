//! How kernels rotate keys on read.

use terrace_device::View;

use crate::attention::attend_args::AttendArgs;
use crate::cuda::extent;
use crate::elementwise::rope::RopeStyle;
use crate::pages::slot_kv::SlotKv;

/// Twin of `ReadRope` in `slot_rerotate.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KeyRope {
    /// 0 where none is.
    inv_freqs: u64,
    /// 0 where keys are stored rotated.
    scales: u64,
    pairs: u32,
    is_interleaved: u32,
}

impl KeyRope {
    /// Of sequences all of whose keys are rotated on read; protected ones see re-rotated queries.
    pub(super) fn of_all_keys(args: &AttendArgs<'_>, kv: &SlotKv<'_>) -> Self {
        let Some(rope) = kv.read_rope else {
            return KeyRope { inv_freqs: 0, scales: 0, pairs: 0, is_interleaved: 0 };
        };
        let scales = rope.scales.device_address();
        KeyRope { scales, ..KeyRope::new(rope.inv_freqs, args.rope_style) }
    }

    /// The same where protected keys are rotated forward, and no query is.
    pub(super) fn with_protected_keys(args: &AttendArgs<'_>, kv: &SlotKv<'_>) -> Self {
        match (kv.read_rope, args.rerotated) {
            (None, Some(rerotated)) => {
                let [pairs] = rerotated.inv_freq.dims();
                KeyRope::new(rerotated.inv_freq.reshape([1, pairs]), args.rope_style)
            }
            _ => KeyRope::of_all_keys(args, kv),
        }
    }

    /// inv_freqs: `[seqs, pairs]`
    fn new(inv_freqs: View<'_>, style: RopeStyle) -> Self {
        let [_, pairs] = inv_freqs.dims();
        assert_eq!(inv_freqs.row_stride(), pairs, "frequencies are strided");
        KeyRope {
            inv_freqs: inv_freqs.device_address(),
            scales: 0,
            pairs: extent(pairs),
            is_interleaved: u32::from(style == RopeStyle::Interleaved),
        }
    }
}
