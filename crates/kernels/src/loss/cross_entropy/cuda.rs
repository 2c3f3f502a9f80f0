//! Launches `cross_entropy.cu`.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::block::Found;
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(crate) struct CrossEntropyKernels {
    clear: TypedKernel<FoundParams>,
    note_block: TypedKernel<LogitsParams>,
    to_gradient: TypedKernel<LogitsParams>,
    losses: TypedKernel<FoundParams>,
}

kernel_params! {
    /// Twin of `FoundParams` in `cross_entropy.cu`.
    struct FoundParams: 32 bytes {
        found: u64,
        targets: u64,
        losses: u64,
        rows: u32,
    }
}

kernel_params! {
    /// Twin of `LogitsParams` in `cross_entropy.cu`.
    struct LogitsParams: 48 bytes {
        logits: u64,
        targets: u64,
        found: u64,
        factors: u64,
        width: u32,
        stride: u32,
        first_id: u32,
    }
}

/// Rows of a block where a thread has one.
const FOUND_THREADS: usize = 128;

/// found, what is known of each row: f32 `[rows, 3]`, dense · logits of the tokens `ids` of the
/// vocabulary: f32 `[rows, width]`, rows may be strided · targets: i32 `[rows]`, negative for none
/// · factors, what each row's loss counts, and losses: f32 `[rows]`
impl CrossEntropyKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "cross_entropy", "f32")?;
        Ok(CrossEntropyKernels {
            clear: TypedKernel::find(&module, "clear_found")?,
            note_block: TypedKernel::find(&module, "note_block")?,
            to_gradient: TypedKernel::find(&module, "to_gradient")?,
            losses: TypedKernel::find(&module, "losses")?,
        })
    }

    /// Nothing is known of any row.
    pub(crate) fn clear(&self, found: ViewMut<'_>) {
        let rows = rows_of(found.as_view());
        let params = FoundParams {
            found: found.device_address(),
            targets: 0,
            losses: 0,
            rows: extent(rows),
        };
        let grid = [rows.div_ceil(FOUND_THREADS), 1, 1];
        // SAFETY: the shape and type were just checked; without losses no other array is read.
        unsafe { self.clear.launch(grid, FOUND_THREADS, &params) };
    }

    /// Takes a block into what was found; rows without a target are passed over.
    pub(crate) fn note_block(
        &self,
        logits: View<'_>,
        ids: &Range<usize>,
        targets: View<'_>,
        found: ViewMut<'_>,
    ) {
        let params = logits_params(logits, ids, targets, found.as_view());
        let [rows, width] = logits.dims();
        // SAFETY: the shapes and types were just checked; found is borrowed to be written.
        unsafe { self.note_block.launch([rows, 1, 1], threads(width), &params) };
    }

    /// Makes a block of logits their gradient, in place; zeros in rows without a target.
    pub(crate) fn to_gradient(
        &self,
        logits: ViewMut<'_>,
        ids: &Range<usize>,
        targets: View<'_>,
        found: View<'_>,
        factors: View<'_>,
    ) {
        let [rows, width] = logits.dims();
        assert_eq!(factors.dims(), [rows], "factors of cross entropy");
        assert_eq!(factors.dtype(), DType::F32, "type of factors of cross entropy");
        let params = LogitsParams {
            factors: factors.device_address(),
            ..logits_params(logits.as_view(), ids, targets, found)
        };
        // SAFETY: the shapes and types were just checked; logits are borrowed to be written.
        unsafe { self.to_gradient.launch([rows, 1, 1], threads(width), &params) };
    }

    /// Once all blocks were noted; 0 for rows without a target.
    pub(crate) fn losses(&self, found: View<'_>, targets: View<'_>, losses: ViewMut<'_>) {
        let rows = rows_of(found);
        assert_eq!([targets.dims(), losses.dims()], [[rows]; 2], "rows of cross entropy");
        let are_right = targets.dtype() == DType::I32 && losses.dtype() == DType::F32;
        assert!(are_right, "types of losses of cross entropy");
        let params = FoundParams {
            found: found.device_address(),
            targets: targets.device_address(),
            losses: losses.device_address(),
            rows: extent(rows),
        };
        let grid = [rows.div_ceil(FOUND_THREADS), 1, 1];
        // SAFETY: the shapes and types were just checked.
        unsafe { self.losses.launch(grid, FOUND_THREADS, &params) };
    }
}

/// Without factors.
#[track_caller]
fn logits_params(
    logits: View<'_>,
    ids: &Range<usize>,
    targets: View<'_>,
    found: View<'_>,
) -> LogitsParams {
    let [rows, width] = logits.dims();
    assert_eq!(ids.len(), width, "tokens of a block of logits");
    assert!(i32::try_from(ids.end).is_ok(), "a vocabulary of {} tokens or more", ids.end);
    assert_eq!((rows_of(found), targets.dims()), (rows, [rows]), "rows of cross entropy");
    let are_right = logits.dtype() == DType::F32 && targets.dtype() == DType::I32;
    assert!(are_right, "types of cross entropy");
    LogitsParams {
        logits: logits.device_address(),
        targets: targets.device_address(),
        found: found.device_address(),
        factors: 0,
        width: extent(width),
        stride: extent(logits.row_stride()),
        first_id: extent(ids.start),
    }
}

#[track_caller]
fn rows_of(found: View<'_>) -> usize {
    let [rows, numbers] = found.dims();
    assert_eq!((numbers, found.dtype()), (Found::NUMBERS, DType::F32), "found of cross entropy");
    assert!(rows <= 1 || found.row_stride() == numbers, "found of cross entropy is strided");
    rows
}

/// Two vectors of four logits for each thread, as far as that goes.
fn threads(width: usize) -> usize {
    width.div_ceil(8).next_multiple_of(32).clamp(32, 512)
}
