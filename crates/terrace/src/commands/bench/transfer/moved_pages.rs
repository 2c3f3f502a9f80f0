//! The pages that move: on the host, on the device, and which belong together.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use terrace_device::cuda::PinnedPages;
use terrace_device::{Buffer, DType, Device};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{PageMover, PageMoves};

/// Two sets, so that two transfers can go on at once.
pub struct MovedPages {
    host: Arc<PinnedPages>,
    /// What taking the host's memory took.
    pinned_seconds: f64,
    sets: [PageSet; 2],
}

/// Pages of one transfer, at random places of both sides.
pub struct PageSet {
    host: Arc<PinnedPages>,
    device: Buffer,
    page_bytes: usize,
    /// Of the host, and of the device.
    pairs: Vec<(usize, usize)>,
}

/// What one transfer took.
pub struct Run {
    pub seconds: f64,
    pub start_seconds: f64,
    /// On a GPU.
    pub first_part_ms: Option<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

const SEED: u64 = 1;

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::In, Direction::Out];

    pub fn name(self) -> &'static str {
        match self {
            Direction::In => "to device",
            Direction::Out => "to host",
        }
    }
}

impl MovedPages {
    /// Takes memory for two sets of so many pages.
    pub fn take(device: &Device, page_bytes: usize, pages: usize) -> Result<Self> {
        let began = Instant::now();
        let host = PinnedPages::begin(device, page_bytes, 2 * pages)?.wait()?;
        let pinned_seconds = began.elapsed().as_secs_f64();
        let mut random = SplitMix::new(SEED);
        let stored = random.shuffled(2 * pages);
        let mut set = |mine: &[usize]| -> Result<PageSet> {
            let device = device.take(pages * page_bytes, "pages to move")?;
            let pairs = mine.iter().copied().zip(random.shuffled(pages)).collect();
            Ok(PageSet { host: Arc::clone(&host), device, page_bytes, pairs })
        };
        let sets = [set(&stored[..pages])?, set(&stored[pages..])?];
        Ok(MovedPages { host, pinned_seconds, sets })
    }

    /// How fast the host's memory was taken.
    pub fn pinned_gb_per_second(&self) -> f64 {
        (self.host.len() * self.host.page_bytes()) as f64 / self.pinned_seconds * 1e-9
    }

    /// Gives each page bytes of its own: what is all zeros may move faster.
    pub fn fill(&self) {
        for page in 0..self.host.len() {
            self.host.write(page).fill(page as u8 | 1);
        }
    }

    pub fn sets_mut(&mut self) -> &mut [PageSet; 2] {
        &mut self.sets
    }
}

impl PageSet {
    /// Moves all pages and waits for them.
    pub fn run(
        &mut self,
        mover: &mut PageMover,
        direction: Direction,
        parts: &[Range<usize>],
    ) -> Result<Run> {
        let (host, pairs) = (&self.host, self.pairs.iter());
        let moves = match direction {
            Direction::In => {
                PageMoves::In(pairs.map(|&(at, page)| (host.read(at), page)).collect())
            }
            Direction::Out => {
                PageMoves::Out(pairs.map(|&(at, page)| (host.write(at), page)).collect())
            }
        };
        let pages = self.device.view_mut(DType::U8, [self.pairs.len(), self.page_bytes]);
        let began = Instant::now();
        let transfer = mover.start(pages, moves, parts)?;
        let start_seconds = began.elapsed().as_secs_f64();
        transfer.wait(parts.len() - 1)?;
        let seconds = began.elapsed().as_secs_f64();
        let first_part_ms = transfer.part_ms(0)?;
        mover.finish(transfer)?;
        Ok(Run { seconds, start_seconds, first_part_ms })
    }
}
