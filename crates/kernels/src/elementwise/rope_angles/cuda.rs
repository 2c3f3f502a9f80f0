//! Launches `rope_angles.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{extent, load};
use crate::elementwise::rope_angles::RopeFrequencies;
use crate::error::Error;

pub(crate) struct RopeAnglesKernel {
    rope_angles: CudaKernel,
}

const THREADS: usize = 128;

/// Twin of `RopeAnglesParams` in `rope_angles.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RopeAnglesParams {
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

const _: () = assert!(size_of::<RopeAnglesParams>() == 56);

impl RopeAnglesKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "rope_angles", "f32")?;
        Ok(RopeAnglesKernel { rope_angles: module.kernel("rope_angles")? })
    }

    /// positions: i32 `[tokens]` · cos, sin: f32 `[tokens, pairs]`, dense
    pub(crate) fn rope_angles(
        &self,
        positions: View<'_>,
        frequencies: RopeFrequencies<'_>,
        scale: f32,
        cos: ViewMut<'_>,
        sin: ViewMut<'_>,
    ) {
        let [tokens] = positions.dims();
        frequencies.check(tokens, &cos, &sin);
        let RopeFrequencies { inv_freqs, row_seqs } = frequencies;
        let [_, pairs] = inv_freqs.dims();
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
        let grid = [extent((tokens * pairs).div_ceil(THREADS)), 1, 1];
        let launch = Launch { grid, block: THREADS as u32, shared_bytes: 0 };
        // SAFETY: the params are the kernel's own, and the shapes were just checked.
        unsafe { self.rope_angles.launch(launch, &params) };
    }
}
