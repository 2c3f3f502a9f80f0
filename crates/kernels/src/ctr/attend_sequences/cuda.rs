//! Launches `attend_sequences.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::{AttendSequencesArgs, MAX_SEQUENCE_KEYS};
use crate::ctr::ctr_rows::CtrRows;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct AttendSequencesKernel {
    kernel: TypedKernel<AttendSequencesParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `AttendSequencesParams` in `attend_sequences.cu`.
    struct AttendSequencesParams: 104 bytes {
        q: CtrRows,
        k: CtrRows,
        v: CtrRows,
        mask: CtrRows,
        out: CtrRows,
        rows: u32,
        columns: u32,
        heads: u32,
        dim: u32,
        scale: f32,
        unused: u32,
    }
}

/// Each warp of a block has a query's scores in shared memory; so many where they fit.
const WARPS: usize = 4;
const SHARED_BYTES_MOST: usize = MAX_SEQUENCE_KEYS * size_of::<f32>();

impl AttendSequencesKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "attend_sequences", activation.name())?;
        kernel.allow_shared(SHARED_BYTES_MOST)?;
        Ok(AttendSequencesKernel { kernel, activation })
    }

    /// out: act, as the queries
    pub(crate) fn attend_sequences(&self, args: &AttendSequencesArgs<'_>, out: ViewMut<'_>) {
        let AttendSequencesArgs { q, k, v, mask, heads, dim } = *args;
        let ([samples, q_width], [_, k_width]) = (q.dims(), k.dims());
        let hidden = heads * dim;
        let (rows, columns) = (q_width / hidden, k_width / hidden);
        assert_eq!(q.dims(), [samples, rows * hidden], "queries of attend_sequences");
        let keys = [k, v].map(|view| view.dims());
        assert_eq!(keys, [[samples, columns * hidden]; 2], "keys of attend_sequences");
        assert_eq!(out.dims(), q.dims::<2>(), "out of attend_sequences");
        let is_mask = |mask: View<'_>| mask.dims() == [samples, rows * columns];
        assert!(mask.is_none_or(is_mask), "mask of attention");
        assert!(columns <= MAX_SEQUENCE_KEYS, "{columns} keys");
        let params = AttendSequencesParams {
            q: CtrRows::of(q, self.activation),
            k: CtrRows::of(k, self.activation),
            v: CtrRows::of(v, self.activation),
            mask: mask.map_or(CtrRows::NONE, |mask| CtrRows::of(mask, self.activation)),
            out: CtrRows::of_mut(&out, self.activation),
            rows: extent(rows),
            columns: extent(columns),
            heads: extent(heads),
            dim: extent(dim),
            scale: 1.0 / (dim as f32).sqrt(),
            unused: 0,
        };
        let bytes = columns * size_of::<f32>();
        let warps = (SHARED_BYTES_MOST / bytes.max(1)).clamp(1, WARPS);
        let (grid, threads) = ([samples, heads, 1], 32 * warps);
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch_shared(grid, threads, warps * bytes, &params) };
    }
}
