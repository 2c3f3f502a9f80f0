//! Pinned host memory for arrays that come and go: taking it anew means pinning page after page,
//! which is slower than filling it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cuda_device::CudaDevice;
use super::pinned_buffer::PinnedBuffer;
use crate::error::Error;

/// A pool is one stream's, whose order keeps the next owner's copies behind the last one's.
#[derive(Clone)]
pub struct PinnedPool {
    device: Arc<CudaDevice>,
    free: Free,
}

/// What nobody has, by length.
type Free = Arc<Mutex<BTreeMap<usize, Vec<PinnedBuffer>>>>;

/// A buffer of at least as many bytes as were asked for, which goes back to its pool.
pub struct PooledPinned {
    /// There until it is dropped.
    buffer: Option<PinnedBuffer>,
    free: Free,
}

impl PinnedPool {
    pub fn new(device: Arc<CudaDevice>) -> Self {
        PinnedPool { device, free: Arc::default() }
    }

    /// Takes memory whose content is whatever was there before.
    pub fn take(&self, bytes: usize) -> Result<PooledPinned, Error> {
        let found = {
            let mut free = lock(&self.free);
            let length = free.range(bytes..).next().map(|(length, _)| *length);
            let length = length.filter(|length| *length <= bytes + bytes / 4);
            length.and_then(|length| free.get_mut(&length)?.pop())
        };
        let buffer = match found {
            Some(buffer) => buffer,
            None => self.device.pinned(bytes)?,
        };
        Ok(PooledPinned { buffer: Some(buffer), free: Arc::clone(&self.free) })
    }
}

impl Deref for PooledPinned {
    type Target = PinnedBuffer;

    fn deref(&self) -> &PinnedBuffer {
        self.buffer.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for PooledPinned {
    fn deref_mut(&mut self) -> &mut PinnedBuffer {
        self.buffer.as_mut().expect("there until it is dropped")
    }
}

impl Drop for PooledPinned {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            lock(&self.free).entry(buffer.bytes().len()).or_default().push(buffer);
        }
    }
}

fn lock(free: &Free) -> MutexGuard<'_, BTreeMap<usize, Vec<PinnedBuffer>>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}
