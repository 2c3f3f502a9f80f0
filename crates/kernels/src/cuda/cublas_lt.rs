//! Large products through NVIDIA's cuBLASLt, where the library is found.
//!
//! Only the few calls that a product takes are declared here; their meaning is the same in CUDA 12
//! and 13. Which kernel the library runs for a size is asked once and kept.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;
use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View};

use super::find_library::find_library;
use super::library_calls::library_calls;
use crate::error::Error;
use crate::linear::matmul::bias::Bias;
use crate::linear::matmul::dense_product::DenseProduct;
use crate::linear::matmul::matrix_product::{MatrixProduct, Operand};
use crate::linear::matmul::product::Epilogue;

const NAMES: [&str; 2] = ["libcublasLt.so.13", "libcublasLt.so.12"];
/// What NVIDIA advises for Hopper.
const WORKSPACE_BYTES: usize = 32 << 20;
/// Of matrices that it is given.
const ALIGNMENT: u64 = 16;

pub(crate) struct CublasLt {
    calls: Calls,
    handle: Handle,
    device: Arc<CudaDevice>,
    activation: DType,
    workspace: Buffer,
    /// `None` for sizes that the library cannot do.
    plans: Mutex<HashMap<Size, Option<Plan>>>,
    /// Keeps the calls alive.
    _library: Library,
}

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Size {
    tokens: usize,
    rows: usize,
    columns: usize,
    x: Side,
    weight: Side,
    out_stride: usize,
    out: DType,
    epilogue: c_int,
}

/// How a factor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Side {
    stride: usize,
    /// Whether the numbers that are summed over lie below each other.
    is_transposed: bool,
}

/// Where a product's matrices are, and what they are multiplied by.
struct Operation {
    weight: u64,
    x: u64,
    out: u64,
    scale: f32,
    /// Of what is there before.
    kept: f32,
}

/// A product's description and the kernel chosen for it.
#[derive(Clone, Copy)]
struct Plan {
    product: Handle,
    weight: Handle,
    x: Handle,
    out: Handle,
    kernel: Kernel,
}

type Handle = *mut c_void;

/// The library's own record of a kernel; opaque.
type Kernel = [u64; 8];

/// Twin of `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Choice {
    kernel: Kernel,
    workspace_bytes: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

// Values of the library's enumerations.
const F32: c_int = 0;
const F16: c_int = 2;
const BF16: c_int = 14;
const COMPUTE_F32: c_int = 68;
const TRANSPOSE_A: c_int = 3;
const TRANSPOSE_B: c_int = 4;
const EPILOGUE: c_int = 7;
const BIAS_POINTER: c_int = 8;
const PLAIN: c_int = 1;
const RELU: c_int = 2;
const ADD_BIAS: c_int = 4;
const NOT_TRANSPOSED: c_int = 0;
const TRANSPOSED: c_int = 1;
const MAX_WORKSPACE: c_int = 1;

library_calls! { Calls;
    create = b"cublasLtCreate\0": fn(*mut Handle);
    destroy = b"cublasLtDestroy\0": fn(Handle);
    create_product = b"cublasLtMatmulDescCreate\0": fn(*mut Handle, c_int, c_int);
    set_product = b"cublasLtMatmulDescSetAttribute\0": fn(Handle, c_int, *const c_void, usize);
    destroy_product = b"cublasLtMatmulDescDestroy\0": fn(Handle);
    create_layout = b"cublasLtMatrixLayoutCreate\0": fn(*mut Handle, c_int, u64, u64, i64);
    destroy_layout = b"cublasLtMatrixLayoutDestroy\0": fn(Handle);
    create_preference = b"cublasLtMatmulPreferenceCreate\0": fn(*mut Handle);
    set_limit = b"cublasLtMatmulPreferenceSetAttribute\0": fn(Handle, c_int, *const c_void, usize);
    destroy_preference = b"cublasLtMatmulPreferenceDestroy\0": fn(Handle);
    choose = b"cublasLtMatmulAlgoGetHeuristic\0":
        fn(Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Choice, *mut c_int);
    multiply = b"cublasLtMatmul\0":
        fn(Handle, Handle, *const f32, u64, Handle, u64, Handle, *const f32, u64, Handle, u64,
           Handle, *const Kernel, u64, usize, *mut c_void);
}

// SAFETY: handles of a library that may be called from any thread; plans are behind a lock.
unsafe impl Send for CublasLt {}
// SAFETY: as above.
unsafe impl Sync for CublasLt {}

impl CublasLt {
    /// Opens the library; `None` when there is none that can be used.
    pub fn open(
        device: &Arc<CudaDevice>,
        activation: DType,
        folders: &[PathBuf],
    ) -> Result<Option<Self>, Error> {
        let Some(library) = find_library(&NAMES, folders) else { return Ok(None) };
        let Some(calls) = Calls::of(&library) else { return Ok(None) };
        // The library works in the context that this thread has bound.
        device.raw_stream();
        let mut handle = null_mut();
        // SAFETY: the call writes one handle.
        if unsafe { (calls.create)(&raw mut handle) } != 0 {
            return Ok(None);
        }
        let workspace = Device::Cuda(Arc::clone(device)).take(WORKSPACE_BYTES, "cuBLASLt")?;
        let device = Arc::clone(device);
        let plans = Mutex::default();
        Ok(Some(CublasLt {
            calls,
            handle,
            device,
            activation,
            workspace,
            plans,
            _library: library,
        }))
    }

    /// All of the activations' type, or `out` in f32; a bias is of the type of `out`. `false` if
    /// the library cannot do it.
    pub fn project(&self, product: &DenseProduct<'_>) -> bool {
        let DenseProduct { x, weight, out, .. } = product;
        let ([tokens, columns], [rows, _]) = (x.dims(), weight.dims());
        assert!([x.dtype(), weight.dtype()] == [self.activation; 2], "types of project");
        let side = |view: &View<'_>| Side { stride: view.row_stride(), is_transposed: false };
        let Some(epilogue) = epilogue(product) else { return false };
        let size = Size {
            tokens,
            rows,
            columns,
            x: side(x),
            weight: side(weight),
            out_stride: out.row_stride(),
            out: out.dtype(),
            epilogue,
        };
        let operation = Operation {
            weight: weight.device_address(),
            x: x.device_address(),
            out: out.device_address(),
            scale: 1.0,
            kept: 0.0,
        };
        self.run(size, &operation, product.bias)
    }

    /// Factors of the activations' type, `out` too or in f32. `false` if the library cannot do it.
    pub fn multiply(&self, product: &MatrixProduct<'_>) -> bool {
        let [tokens, rows, columns] = product.extents();
        let MatrixProduct { left, right, scale, adds, out } = product;
        let operation = Operation {
            weight: right.view.device_address(),
            x: left.view.device_address(),
            out: out.device_address(),
            scale: *scale,
            kept: if *adds { 1.0 } else { 0.0 },
        };
        // The library's kernels load 16 bytes at a time, or are slow.
        let are_aligned = [operation.weight, operation.x, operation.out]
            .iter()
            .all(|address| address.is_multiple_of(ALIGNMENT));
        let is_empty = tokens == 0 || rows == 0 || columns == 0;
        let strides = [left.view.row_stride(), right.view.row_stride()];
        let are_whole = strides.iter().all(|stride| stride.is_multiple_of(8));
        if !are_aligned || !are_whole || is_empty {
            return false;
        }
        let side = |operand: &Operand<'_>| Side {
            stride: operand.view.row_stride(),
            is_transposed: operand.is_transposed,
        };
        let size = Size {
            tokens,
            rows,
            columns,
            x: side(left),
            weight: side(right),
            out_stride: out.row_stride(),
            out: out.dtype(),
            epilogue: PLAIN,
        };
        self.run(size, &operation, None)
    }

    fn run(&self, size: Size, operation: &Operation, bias: Option<Bias<'_>>) -> bool {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plans.entry(size).or_insert_with(|| self.make_plan(size));
        let Some(plan) = plan else { return false };
        if let Some(bias) = bias {
            plan.set_bias(&self.calls, bias, size.out);
        }
        let Operation { weight, x, out, scale, kept } = operation;
        let stream = self.device.raw_stream();
        let memory = self.workspace.view(DType::U8, [WORKSPACE_BYTES]).device_address();
        // SAFETY: the descriptions are those of the views' sizes, all in device memory; the
        // workspace is used by this stream alone.
        let status = unsafe {
            (self.calls.multiply)(
                self.handle,
                plan.product,
                scale,
                *weight,
                plan.weight,
                *x,
                plan.x,
                kept,
                *out,
                plan.out,
                *out,
                plan.out,
                &raw const plan.kernel,
                memory,
                WORKSPACE_BYTES,
                stream,
            )
        };
        if status != 0 {
            let what = format!("cuBLASLt: product of {size:?}");
            let message = format!("status {status}");
            self.device.fail(terrace_device::Error::Cuda { what, message });
        }
        true
    }

    /// In the library's words matrices lie by columns: ours are their own transposes, and
    /// `out^T = weight * x^T`, where a weight is to be transposed back unless it already is.
    fn make_plan(&self, size: Size) -> Option<Plan> {
        let Size { tokens, rows, columns, x, weight, out_stride, out, epilogue } = size;
        let act_type = if self.activation == DType::F16 { F16 } else { BF16 };
        let out_type = if out == DType::F32 { F32 } else { act_type };
        let calls = &self.calls;
        let (mut product, mut preference) = (null_mut(), null_mut());
        let (mut choice, mut found) = (Choice::default(), 0);
        let turn_weight = if weight.is_transposed { NOT_TRANSPOSED } else { TRANSPOSED };
        let turn_x = if x.is_transposed { TRANSPOSED } else { NOT_TRANSPOSED };
        let layout = |kind, [outputs, summed]: [usize; 2], side: Side| {
            let Side { stride, is_transposed } = side;
            let [rows, columns] = if is_transposed { [outputs, summed] } else { [summed, outputs] };
            let mut layout = null_mut();
            // SAFETY: the call writes one handle.
            unsafe {
                (calls.create_layout)(
                    &raw mut layout,
                    kind,
                    rows as u64,
                    columns as u64,
                    stride as i64,
                );
            }
            layout
        };
        let weight = layout(act_type, [rows, columns], weight);
        let x = layout(act_type, [tokens, columns], x);
        let out =
            layout(out_type, [tokens, rows], Side { stride: out_stride, is_transposed: false });
        // SAFETY: handles were just made, pointers are to values of the sizes given.
        unsafe {
            (calls.create_product)(&raw mut product, COMPUTE_F32, F32);
            for (attribute, turn) in [(TRANSPOSE_A, turn_weight), (TRANSPOSE_B, turn_x)] {
                let flag: *const c_int = &raw const turn;
                (calls.set_product)(product, attribute, flag.cast(), size_of::<c_int>());
            }
            let end: *const c_int = &raw const epilogue;
            (calls.set_product)(product, EPILOGUE, end.cast(), size_of::<c_int>());
            (calls.create_preference)(&raw mut preference);
            let bytes: *const usize = &WORKSPACE_BYTES;
            (calls.set_limit)(preference, MAX_WORKSPACE, bytes.cast(), size_of::<usize>());
            let wanted = 1;
            let status = (calls.choose)(
                self.handle,
                product,
                weight,
                x,
                out,
                out,
                preference,
                wanted,
                &raw mut choice,
                &raw mut found,
            );
            (calls.destroy_preference)(preference);
            let plan = Plan { product, weight, x, out, kernel: choice.kernel };
            if status != 0 || found == 0 {
                plan.destroy(calls);
                return None;
            }
            Some(plan)
        }
    }
}

/// The library's name for what becomes of the sums; `None` if it has none.
fn epilogue(product: &DenseProduct<'_>) -> Option<c_int> {
    let epilogue = match product.epilogue {
        Epilogue::None => 0,
        Epilogue::Relu => RELU,
        Epilogue::Sigmoid => return None,
    };
    match epilogue | if product.bias.is_some() { ADD_BIAS } else { 0 } {
        0 => Some(PLAIN),
        other => Some(other),
    }
}

impl Plan {
    /// What the next product adds.
    fn set_bias(&self, calls: &Calls, bias: Bias<'_>, out: DType) {
        let numbers = if out == DType::F32 { bias.exact } else { bias.rounded };
        let address = numbers.device_address();
        let pointer: *const u64 = &raw const address;
        // SAFETY: the handle is the library's own; it reads one address.
        unsafe {
            (calls.set_product)(self.product, BIAS_POINTER, pointer.cast(), size_of::<u64>())
        };
    }

    /// # Safety
    /// The handles are the library's own, and nobody uses them any more.
    unsafe fn destroy(self, calls: &Calls) {
        // SAFETY: the caller's promise.
        unsafe {
            for layout in [self.weight, self.x, self.out] {
                (calls.destroy_layout)(layout);
            }
            (calls.destroy_product)(self.product);
        }
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        let plans = self.plans.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: all handles were made by this library and are used nowhere else.
        unsafe {
            for plan in plans.values().flatten() {
                plan.destroy(&self.calls);
            }
            (self.calls.destroy)(self.handle);
        }
    }
}
