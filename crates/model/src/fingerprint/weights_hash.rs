//! The content of a model's weights as 32 bytes.
//!
//! SHA-256, because it is what the hub publishes of a file and what `pull` checks, and because a
//! collision would serve one user with another model's keys and values.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use terrace_device::HostMap;
use terrace_kernels::WeightFormat;

use crate::decoder::DecoderTensors;

/// `SHA-256("terrace weights 1" · the SHA-256 of each file)`, files in the order of their first
/// tensors by name; of random weights `SHA-256("terrace random weights 1" · the name of their
/// format)`, for the architecture decides the rest; of tensors that are in no file
/// `SHA-256("terrace tensors 1" · each tensor)`, with their formats, sizes and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightsHash([u8; 32]);

/// The SHA-256 of a file.
pub(super) type FileHash = [u8; 32];

/// Often enough to see it move, rarely enough to cost nothing.
const RUN_BYTES: usize = 4 << 20;

impl WeightsHash {
    /// Reads all bytes of all files.
    pub fn of_files(files: &[Arc<HostMap>]) -> Self {
        Self::of_hashes(&files.iter().map(|file| file_hash(file, |_| {})).collect::<Vec<_>>())
    }

    /// Of weights that [`Decoder::random`](crate::Decoder::random) makes.
    pub fn of_random(format: WeightFormat) -> Self {
        let hash = Sha256::new_with_prefix(b"terrace random weights 1");
        WeightsHash(hash.chain_update(format.name()).finalize().into())
    }

    /// Of tensors that were made otherwise than by reading files.
    pub fn of_tensors(tensors: &DecoderTensors) -> Self {
        let mut hash = Sha256::new_with_prefix(b"terrace tensors 1");
        for matrix in tensors.matrices() {
            hash.update(matrix.format().name());
            let sizes = [matrix.rows(), matrix.columns(), matrix.bytes().len()];
            sizes.into_iter().for_each(|size| hash.update((size as u64).to_le_bytes()));
            hash.update(matrix.bytes());
        }
        for vector in tensors.vectors() {
            let length = vector.map_or(u64::MAX, |vector| vector.len() as u64);
            hash.update(length.to_le_bytes());
            vector.into_iter().flatten().for_each(|number| hash.update(number.to_le_bytes()));
        }
        WeightsHash(hash.finalize().into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn of_hashes(files: &[FileHash]) -> Self {
        let mut hash = Sha256::new_with_prefix(b"terrace weights 1");
        files.iter().for_each(|file| hash.update(file));
        WeightsHash(hash.finalize().into())
    }
}

/// `progress` is given the bytes read since its last call. What was read need not stay in memory.
pub(super) fn file_hash(file: &HostMap, mut progress: impl FnMut(usize)) -> FileHash {
    let mut hash = Sha256::new();
    for start in (0..file.len()).step_by(RUN_BYTES) {
        let run = start..file.len().min(start + RUN_BYTES);
        hash.update(&file.bytes()[run.clone()]);
        progress(run.len());
        file.unload(run);
    }
    hash.finalize().into()
}
