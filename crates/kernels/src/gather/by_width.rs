//! A kernel that copies 16 bytes at once, and one for rows that are no multiple of that.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;

use crate::cuda::{TypedKernel, load};
use crate::error::Error;

pub(crate) struct ByWidth<P> {
    wide: TypedKernel<P>,
    narrow: TypedKernel<P>,
}

impl<P: Copy> ByWidth<P> {
    /// A kernel of a file with the variants `wide` and `narrow`.
    pub(crate) fn find(device: &Arc<CudaDevice>, file: &str, name: &str) -> Result<Self, Error> {
        let find = |width| TypedKernel::find(&load(device, file, width)?, name);
        Ok(ByWidth { wide: find("wide")?, narrow: find("narrow")? })
    }

    pub(crate) fn of(&self, row_bytes: usize) -> &TypedKernel<P> {
        if row_bytes.is_multiple_of(16) { &self.wide } else { &self.narrow }
    }
}
