//! Launches `branch.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::apply_branch::{BranchArgs, BranchForm};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

/// What branches are served with.
pub(crate) struct BranchKernels {
    inner: TypedKernel<BranchInnerParams>,
    /// For outputs of the activations' type, and of f32.
    add: [TypedKernel<BranchAddParams>; 2],
    norm: [TypedKernel<BranchAddParams>; 2],
    activation: DType,
}

kernel_params! {
    /// Twin of `BranchInnerParams` in `branch.cu`.
    struct BranchInnerParams: 40 bytes {
        x: u64,
        a: u64,
        inner: u64,
        tokens: u32,
        columns: u32,
        rank: u32,
        x_stride: u32,
    }
}

kernel_params! {
    /// Twin of `BranchAddParams` in `branch.cu`.
    struct BranchAddParams: 72 bytes {
        inner: u64,
        b: u64,
        numbers: u64,
        bias: u64,
        out: u64,
        tokens: u32,
        rows: u32,
        rank: u32,
        out_stride: u32,
        scale: f32,
        eps: f32,
        /// Of `BranchForm` there.
        form: u32,
        padding: u32,
    }
}

const THREADS: usize = 256;
const WARPS: usize = THREADS / 32;
/// Of a block.
const TOKENS: usize = 8;

impl BranchKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "branch", activation.name())?;
        let pair = |name: &str| -> Result<_, Error> {
            let f32 = TypedKernel::find(&module, &format!("{name}_f32"))?;
            Ok([TypedKernel::find(&module, name)?, f32])
        };
        Ok(BranchKernels {
            inner: TypedKernel::find(&module, "branch_inner")?,
            add: pair("branch_add")?,
            norm: pair("branch_norm")?,
            activation,
        })
    }

    /// x: act · out: act or f32
    pub(crate) fn apply(&self, args: BranchArgs<'_>) {
        let BranchArgs { x, branch, form, inner, out } = args;
        let ([tokens, columns], [out_tokens, rows]) = (x.dims(), out.dims());
        assert_eq!(out_tokens, tokens, "out of a branch");
        assert_eq!(x.dtype(), self.activation, "type of a branch's inputs");
        branch.check(tokens, columns, rows, inner.as_view());
        let [a, b] = [branch.a, branch.b].map(|linear| linear.cuda().only().dense());
        assert_eq!([a.dtype(), b.dtype()], [DType::F32; 2], "types of a branch");
        let rank = branch.rank();
        if tokens == 0 {
            return;
        }
        let params = BranchInnerParams {
            x: x.device_address(),
            a: a.device_address(),
            inner: inner.device_address(),
            tokens: extent(tokens),
            columns: extent(columns),
            rank: extent(rank),
            x_stride: extent(x.row_stride()),
        };
        let token_blocks = tokens.div_ceil(TOKENS);
        // SAFETY: shapes and types were just checked; inner is borrowed to be written.
        unsafe { self.inner.launch([rank.div_ceil(WARPS), token_blocks, 1], THREADS, &params) };
        let (kind, numbers, bias, eps) = match form {
            BranchForm::Added => (0, None, None, 0.0),
            BranchForm::Normed { weight, eps } => (1, Some(weight), None, eps),
            BranchForm::Scaled { factors, bias } => (2, Some(factors), bias, 0.0),
        };
        for vector in [numbers, bias].into_iter().flatten() {
            assert_eq!(vector.view().dims(), [rows], "numbers of a branch's outputs");
        }
        let address = |vector: Option<&crate::linear::vector::Vector>| {
            vector.map_or(0, |vector| vector.view().device_address())
        };
        let params = BranchAddParams {
            inner: inner.device_address(),
            b: b.device_address(),
            numbers: address(numbers),
            bias: address(bias),
            out: out.device_address(),
            tokens: extent(tokens),
            rows: extent(rows),
            rank: extent(rank),
            out_stride: extent(out.row_stride()),
            scale: branch.scale,
            eps,
            form: kind,
            padding: 0,
        };
        let is_f32 = match out.dtype() {
            DType::F32 => 1,
            other if other == self.activation => 0,
            other => panic!("a branch's outputs are {}", other.name()),
        };
        let (kernels, blocks) = match form {
            BranchForm::Normed { .. } => (&self.norm, 1),
            _ => (&self.add, rows.div_ceil(THREADS)),
        };
        // SAFETY: as above; out is borrowed to be written.
        unsafe { kernels[is_f32].launch([blocks, token_blocks, 1], THREADS, &params) };
    }
}
