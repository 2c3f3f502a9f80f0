//! Launches `rope_angles.cu`.

use terrace_device::DType;

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::elementwise::rope_angles::{RopeAnglesArgs, RopeFrequencies};

const THREADS: usize = 128;

kernel_params! {
    /// Twin of `RopeAnglesParams` in `rope_angles.cu`.
    pub(crate) struct RopeAnglesParams: 56 bytes {
        positions: u64,
        inv_freqs: u64,
        /// 0 where all rows are rotated by the first of them.
        row_seqs: u64,
        cos: u64,
        sin: u64,
        tokens: u32,
        pairs: u32,
        scale: f32,
    }
}

impl TypedKernel<RopeAnglesParams> {
    pub(crate) fn rope_angles(&self, args: RopeAnglesArgs<'_>) {
        let [tokens, pairs] = args.extents();
        let RopeAnglesArgs { positions, frequencies, scale, cos, sin } = args;
        let RopeFrequencies { inv_freqs, row_seqs } = frequencies;
        for out in [cos.as_view(), sin.as_view()] {
            assert_eq!(out.dense_bytes(), tokens * pairs * size_of::<f32>(), "type of angles");
        }
        assert_eq!(inv_freqs.row_stride(), pairs, "frequencies are strided");
        let types = [positions.dtype(), inv_freqs.dtype()];
        assert!(types == [DType::I32, DType::F32], "types of rope_angles: {types:?}");
        let params = RopeAnglesParams {
            positions: positions.device_address(),
            inv_freqs: inv_freqs.device_address(),
            row_seqs: row_seqs.map_or(0, |row_seqs| row_seqs.device_address()),
            cos: cos.device_address(),
            sin: sin.device_address(),
            tokens: extent(tokens),
            pairs: extent(pairs),
            scale,
        };
        let blocks = (tokens * pairs).div_ceil(THREADS);
        // SAFETY: the shapes were just checked.
        unsafe { self.launch([blocks, 1, 1], THREADS, &params) };
    }
}
