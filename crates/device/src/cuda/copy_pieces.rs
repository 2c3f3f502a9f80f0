//! Many small copies that are started with one call.
//!
//! The driver has had such a call since CUDA 12.8. One call for each piece takes about 4 us of the
//! host, in which the link could move 200 KiB; a batch takes half a microsecond a piece.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUresult, CUstream};

/// From where to where, piece by piece; addresses as the GPU sees them, pinned host memory too.
#[derive(Default)]
pub struct CopyPieces {
    to: Vec<u64>,
    from: Vec<u64>,
    bytes: Vec<usize>,
}

impl CopyPieces {
    pub fn clear(&mut self) {
        self.to.clear();
        self.from.clear();
        self.bytes.clear();
    }

    pub fn push(&mut self, to: u64, from: u64, bytes: usize) {
        self.to.push(to);
        self.from.push(from);
        self.bytes.push(bytes);
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64, usize)> + '_ {
        let addresses = self.to.iter().zip(&self.from);
        addresses.zip(&self.bytes).map(|((&to, &from), &bytes)| (to, from, bytes))
    }
}

/// The driver's call, as of CUDA 12.8: where to, where from, bytes, how many; attributes, the first
/// piece of each, how many; the first piece that failed; the stream.
type BatchCall = unsafe extern "C" fn(
    *const u64,
    *const u64,
    *const usize,
    usize,
    *const CopyAttributes,
    *const usize,
    usize,
    *mut usize,
    CUstream,
) -> CUresult;

/// Twin of the driver's `CUmemcpyAttributes`.
#[repr(C)]
struct CopyAttributes {
    source_order: c_uint,
    source_hint: [c_int; 2],
    target_hint: [c_int; 2],
    flags: c_uint,
}

/// Sources are read when the stream gets to them; rather beside kernels than fast.
static ATTRIBUTES: CopyAttributes =
    CopyAttributes { source_order: 1, source_hint: [0; 2], target_hint: [0; 2], flags: 1 };
const SINCE: c_int = 12_080;

/// Whether the driver takes many copies at once; the driver must have been initialised.
pub(super) fn has_batches() -> bool {
    batch_call().is_some()
}

/// # Safety
/// As for `CopyStream::copy_pieces`; the context is bound, and the driver has batches.
pub(super) unsafe fn start_batch(pieces: &CopyPieces, stream: CUstream) -> CUresult {
    let call = batch_call().expect("the driver has batches");
    let (first, mut failed) = (0, 0);
    // SAFETY: three arrays of as many entries, one attribute for all; the rest is the caller's.
    unsafe {
        call(
            pieces.to.as_ptr(),
            pieces.from.as_ptr(),
            pieces.bytes.as_ptr(),
            pieces.len(),
            &raw const ATTRIBUTES,
            &raw const first,
            1,
            &raw mut failed,
            stream,
        )
    }
}

fn batch_call() -> Option<BatchCall> {
    static CALL: OnceLock<Option<BatchCall>> = OnceLock::new();
    *CALL.get_or_init(|| {
        let mut address: *mut c_void = std::ptr::null_mut();
        let name = c"cuMemcpyBatchAsync".as_ptr();
        let status = std::ptr::null_mut();
        // SAFETY: the name ends with a zero byte; the call writes one address.
        let code = unsafe { sys::cuGetProcAddress_v2(name, &raw mut address, SINCE, 0, status) };
        // SAFETY: the driver gave the function of that name and version, which has this type.
        (code == CUresult::CUDA_SUCCESS && !address.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut c_void, BatchCall>(address) })
    })
}
