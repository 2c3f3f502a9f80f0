//! Pinned pages while threads take their memory, so that a start can do something else meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, available_parallelism};

use super::pinned_pages::PinnedPages;
use super::pinned_segment::PinnedSegment;
use crate::device::Device;
use crate::error::Error;

pub struct PinnedPagesComing {
    order: Arc<Order>,
    threads: Vec<JoinHandle<()>>,
}

/// What is to be taken, and what came of it so far.
struct Order {
    device: Device,
    page_bytes: usize,
    segment_pages: usize,
    pages: usize,
    /// The next segment that nobody has begun.
    next: AtomicUsize,
    outcomes: Mutex<Vec<(usize, Result<PinnedSegment, Error>)>>,
}

/// Of a segment, unless there are too few pages to give each thread one.
const SEGMENT_BYTES: usize = 1 << 30;
/// More do not pin faster: 16 took what 8 did on a host with 16 cores.
const MOST_THREADS: usize = 8;

impl PinnedPages {
    /// Begins to take memory for `pages` pages in the background. With a GPU, until its arena is
    /// reserved.
    pub fn begin(
        device: &Device,
        page_bytes: usize,
        pages: usize,
    ) -> Result<PinnedPagesComing, Error> {
        let share = pages.div_ceil(MOST_THREADS).saturating_mul(page_bytes);
        Self::begin_in_segments(device, page_bytes, pages, share.min(SEGMENT_BYTES))
    }

    /// As [`begin`](Self::begin), in segments of at most so many bytes, or of one page.
    pub fn begin_in_segments(
        device: &Device,
        page_bytes: usize,
        pages: usize,
        segment_bytes: usize,
    ) -> Result<PinnedPagesComing, Error> {
        assert!(page_bytes > 0, "a page has bytes");
        if let Device::Cuda(gpu) = device
            && gpu.budget().is_reserved()
        {
            return Err(Error::PinnedAfterStart { bytes: pages.saturating_mul(page_bytes) });
        }
        let order = Arc::new(Order {
            device: device.clone(),
            page_bytes,
            segment_pages: (segment_bytes / page_bytes).max(1),
            pages,
            next: AtomicUsize::new(0),
            outcomes: Mutex::new(Vec::new()),
        });
        let cores = available_parallelism().map_or(1, usize::from);
        let mut coming = PinnedPagesComing { order, threads: Vec::new() };
        for worker in 0..coming.order.segments().min(cores).min(MOST_THREADS) {
            let order = Arc::clone(&coming.order);
            let thread = std::thread::Builder::new().name(format!("pin-{worker}"));
            let started = thread.spawn(move || order.work());
            coming.threads.push(started.map_err(|source| Error::Spawn { worker, source })?);
        }
        Ok(coming)
    }
}

impl PinnedPagesComing {
    /// Waits until all memory is there.
    pub fn wait(mut self) -> Result<Arc<PinnedPages>, Error> {
        for thread in self.threads.drain(..) {
            thread.join().expect("taking memory does not panic");
        }
        let Order { page_bytes, segment_pages, pages, .. } = *self.order;
        let mut outcomes = std::mem::take(&mut *self.order.outcomes());
        outcomes.sort_by_key(|(segment, _)| *segment);
        let segments =
            outcomes.into_iter().map(|(_, outcome)| outcome).collect::<Result<_, _>>()?;
        Ok(Arc::new(PinnedPages::new(page_bytes, segment_pages, pages, segments)))
    }
}

impl Drop for PinnedPagesComing {
    /// Threads of memory that nobody wants any more end after the segment they are at.
    fn drop(&mut self) {
        self.order.stop();
    }
}

impl Order {
    fn segments(&self) -> usize {
        self.pages.div_ceil(self.segment_pages)
    }

    fn outcomes(&self) -> std::sync::MutexGuard<'_, Vec<(usize, Result<PinnedSegment, Error>)>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No further segment is begun.
    fn stop(&self) {
        self.next.store(self.segments(), Ordering::Relaxed);
    }

    fn work(&self) {
        loop {
            let segment = self.next.fetch_add(1, Ordering::Relaxed);
            if self.segments() <= segment {
                return;
            }
            let pages = self.segment_pages.min(self.pages - segment * self.segment_pages);
            let bytes = pages.saturating_mul(self.page_bytes);
            let outcome = PinnedSegment::take(&self.device, bytes);
            if outcome.is_err() {
                self.stop();
            }
            self.outcomes().push((segment, outcome));
        }
    }
}
