//! Tensors and functions as the CUDA kernels of click-through models take them.

use terrace_device::{DType, View, ViewMut};

use super::activation::CtrActivation;
use crate::cuda::{extent, kernel_params};

kernel_params! {
    /// Twin of `CtrRows` in `ctr_numbers.cuh`.
    pub(crate) struct CtrRows: 16 bytes {
        data: u64,
        stride: u32,
        is_f32: u32,
    }
}

kernel_params! {
    /// Twin of `CtrActivation` in `ctr_numbers.cuh`.
    pub(crate) struct ActivationParams: 8 bytes {
        kind: u32,
        alpha: f32,
    }
}

/// Threads of a block whose threads have a number each.
pub(crate) const THREADS: usize = 128;

impl CtrRows {
    /// No tensor.
    pub(crate) const NONE: CtrRows = CtrRows { data: 0, stride: 0, is_f32: 0 };

    /// Of f32 or of the activations' type.
    pub(crate) fn of(view: View<'_>, activation: DType) -> Self {
        let dtype = view.dtype();
        assert!(dtype == DType::F32 || dtype == activation, "rows of {}", dtype.name());
        CtrRows {
            data: view.device_address(),
            stride: extent(view.row_stride()),
            is_f32: u32::from(dtype == DType::F32),
        }
    }

    pub(crate) fn of_mut(view: &ViewMut<'_>, activation: DType) -> Self {
        CtrRows::of(view.as_view(), activation)
    }
}

impl ActivationParams {
    pub(crate) fn of(activation: Option<CtrActivation>) -> Self {
        let (kind, alpha) = match activation {
            None => (0, 0.0),
            Some(CtrActivation::Relu) => (1, 0.0),
            Some(CtrActivation::Sigmoid) => (2, 0.0),
            Some(CtrActivation::Elu { alpha }) => (3, alpha),
        };
        ActivationParams { kind, alpha }
    }
}

/// Blocks of [`THREADS`] for so many threads.
pub(crate) fn blocks(threads: usize) -> [usize; 3] {
    [threads.div_ceil(THREADS), 1, 1]
}
