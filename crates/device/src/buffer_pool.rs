//! Memory for arrays that come and go: what one gives back is the next one's.
//!
//! On the host that saves the operating system clearing pages again and again, on a GPU the wait
//! until nothing runs. What is given back may still be read by work that was launched before: on a
//! GPU a pool is one stream's, whose order keeps the next owner behind it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::memory_record::{HeldMemory, MemoryBook, MemoryRecord};

#[derive(Clone)]
pub struct BufferPool {
    device: Device,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// What nobody has, by length.
    free: BTreeMap<usize, Vec<Buffer>>,
    /// Bytes that somebody has, and the most that they have been.
    taken: usize,
    peak: usize,
    book: MemoryBook,
}

/// A buffer of at least as many bytes as were asked for, which goes back to its pool.
pub struct PooledBuffer {
    /// There until it is dropped.
    buffer: Option<Buffer>,
    kept: Arc<Mutex<Kept>>,
}

impl BufferPool {
    pub fn new(device: Device) -> Self {
        BufferPool { device, kept: Arc::default() }
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Takes memory whose content is whatever was there before; `what` names it in the error when
    /// there is not enough.
    pub fn take(&self, bytes: usize, what: &'static str) -> Result<PooledBuffer, Error> {
        let length = rounded(bytes);
        let found = self.kept().find(length);
        let buffer = match found {
            Some(buffer) => buffer,
            None => self.ask_device(length, what)?,
        };
        let mut kept = self.kept();
        kept.taken += buffer.len();
        kept.peak = kept.peak.max(kept.taken);
        kept.book.take(HeldMemory { address: buffer.address(), bytes: buffer.len(), what });
        drop(kept);
        Ok(PooledBuffer { buffer: Some(buffer), kept: Arc::clone(&self.kept) })
    }

    /// Bytes that somebody has.
    pub fn taken_bytes(&self) -> usize {
        self.kept().taken
    }

    /// The most that they have been since this was last asked.
    pub fn take_peak_bytes(&self) -> usize {
        let mut kept = self.kept();
        let taken = kept.taken;
        std::mem::replace(&mut kept.peak, taken)
    }

    /// Records from now on who takes memory and gives it back, the newest `most` of these events.
    pub fn record(&self, most: usize) {
        self.kept().book.begin(most);
    }

    /// Ends the recording.
    pub fn take_record(&self) -> MemoryRecord {
        self.kept().book.end()
    }

    /// Gives back to the device what nobody has.
    pub fn release(&self) {
        self.kept().free.clear();
    }

    /// What is kept for others makes room before there is too little.
    fn ask_device(&self, length: usize, what: &'static str) -> Result<Buffer, Error> {
        self.device.take(length, what).or_else(|error| {
            let kept = std::mem::take(&mut self.kept().free);
            if kept.is_empty() {
                return Err(error);
            }
            drop(kept);
            self.device.take(length, what)
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

impl Kept {
    /// The shortest that is long enough and not much longer.
    fn find(&mut self, length: usize) -> Option<Buffer> {
        let most = length + length / 4;
        let (&length, _) = self.free.range(length..=most).next()?;
        let buffers = self.free.get_mut(&length)?;
        let buffer = buffers.pop();
        if buffers.is_empty() {
            self.free.remove(&length);
        }
        buffer
    }
}

impl PooledBuffer {
    pub fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("there until it is dropped")
    }

    pub fn buffer_mut(&mut self) -> &mut Buffer {
        self.buffer.as_mut().expect("there until it is dropped")
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            let mut kept = lock(&self.kept);
            kept.taken -= buffer.len();
            kept.book.give_back(buffer.address());
            kept.free.entry(buffer.len()).or_default().push(buffer);
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Up to an eighth more, so that lengths that are almost equal are one.
fn rounded(bytes: usize) -> usize {
    let step = (bytes.max(1).next_power_of_two() / 16).max(256);
    bytes.max(1).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_again() {
        let pool = BufferPool::new(Device::Cpu);
        let mut first = pool.take(100_000, "a test").expect("memory");
        first.buffer_mut().bytes_mut()[7] = 3;
        let start = first.buffer().bytes().as_ptr();
        let (taken, second) = (pool.taken_bytes(), pool.take(100_000, "a test").expect("memory"));
        assert_ne!(second.buffer().bytes().as_ptr(), start);
        assert_eq!(pool.taken_bytes(), 2 * taken);
        drop(first);
        let third = pool.take(99_000, "a test").expect("memory");
        assert_eq!(third.buffer().bytes().as_ptr(), start, "almost as long");
        assert_eq!(third.buffer().bytes()[7], 3, "nobody clears it");
        assert!((100_000..115_000).contains(&taken), "{taken}");
        assert_eq!(pool.take_peak_bytes(), 2 * taken);
        drop((second, third));
        assert_eq!(pool.taken_bytes(), 0);
        assert_eq!(pool.take_peak_bytes(), 2 * taken, "until it was asked for");
        assert_eq!(pool.take_peak_bytes(), 0);
    }

    #[test]
    fn a_much_longer_one_stays_for_others() {
        let pool = BufferPool::new(Device::Cpu);
        drop(pool.take(1 << 20, "a test").expect("memory"));
        let short = pool.take(1 << 16, "a test").expect("memory");
        assert_eq!(short.buffer().len(), 1 << 16);
        assert_eq!(pool.take(1 << 20, "a test").expect("memory").buffer().len(), 1 << 20);
        pool.release();
        assert!(pool.kept().free.is_empty());
    }

    #[test]
    fn more_than_there_is_is_refused_by_name() {
        let pool = BufferPool::new(Device::Cpu);
        let error = pool.take(1 << 60, "an endless array").err().expect("too much").to_string();
        assert!(error.contains("an endless array"), "{error}");
        assert_eq!(pool.taken_bytes(), 0);
    }
}
