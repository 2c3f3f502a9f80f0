//! Launches `sample.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::sample_row::SampleRow;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

/// Samples on a GPU, whose step may go on from an id that the host does not know yet.
pub struct SampleKernel {
    sample: TypedKernel<SampleParams>,
    /// Blocks that work on one row.
    parts: usize,
}

const THREADS: usize = 512;
/// Of the Hopper kernel: what it has besides the shared memory of the row.
const MOST_SHARED_BYTES: usize = 192 * 1024;

kernel_params! {
    /// Twin of `SampleParams` in `sample.cu`.
    struct SampleParams: 32 bytes {
        logits: u64,
        rows: u64,
        ids: u64,
        vocab: u32,
        logits_stride: u32,
    }
}

impl SampleKernel {
    /// An error if it cannot sample from so many tokens.
    pub fn load(device: &Arc<CudaDevice>, vocab: usize) -> Result<Self, Error> {
        let sample = TypedKernel::load(device, "sample", "f32")?;
        // As the kernel was compiled: only Hopper's version works in clusters.
        let parts = if device.compute_capability() == (9, 0) { 8 } else { 1 };
        if parts > 1 {
            sample.allow_shared(MOST_SHARED_BYTES)?;
        }
        let kernel = SampleKernel { sample, parts };
        match kernel.most_vocab() {
            most if most < vocab => Err(Error::VocabOnGpu { vocab, most }),
            _ => Ok(kernel),
        }
    }

    /// Samples one token for each of `rows`: [`SampleRow`]s as u8 `[picks, SampleRow::BYTES]` ·
    /// logits: f32 `[_, vocab]`, rows may be strided · ids: i32 `[picks]`
    ///
    /// An id is -1 if every logit is -inf or not a number; skipped ids stay as they are.
    pub fn sample(&self, logits: View<'_>, rows: View<'_>, ids: ViewMut<'_>) {
        let [_, vocab] = logits.dims();
        let [picks] = ids.dims();
        assert_eq!(rows.dims(), [picks, SampleRow::BYTES], "rows of sample");
        assert_eq!(rows.dense_bytes(), picks * SampleRow::BYTES, "rows of sample");
        let types = [logits.dtype(), rows.dtype(), ids.dtype()];
        assert!(types == [DType::F32, DType::U8, DType::I32], "types of sample: {types:?}");
        let params = SampleParams {
            logits: logits.device_address(),
            rows: rows.device_address(),
            ids: ids.device_address(),
            vocab: extent(vocab),
            logits_stride: extent(logits.row_stride()),
        };
        let (grid, shared_bytes) = ([picks * self.parts, 1, 1], self.shared_bytes(vocab));
        // SAFETY: the shapes were just checked; that the rows name rows of the logits is the
        // promise of whoever made them.
        unsafe { self.sample.launch_shared(grid, THREADS, shared_bytes, &params) };
    }

    /// The largest vocabulary: each part of a row fits into shared memory.
    fn most_vocab(&self) -> usize {
        match self.parts {
            1 => usize::MAX,
            parts => parts * MOST_SHARED_BYTES / size_of::<f32>(),
        }
    }

    /// A part of the row, in whole vectors.
    fn shared_bytes(&self, vocab: usize) -> usize {
        if self.parts == 1 {
            return 0;
        }
        let bytes = vocab.div_ceil(self.parts).next_multiple_of(4) * size_of::<f32>();
        assert!(bytes <= MOST_SHARED_BYTES, "a vocabulary of {vocab} is too large to sample");
        bytes
    }
}
