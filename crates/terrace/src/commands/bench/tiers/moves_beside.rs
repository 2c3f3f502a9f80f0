//! Pages that leave the device and come back behind an engine's steps.
//!
//! It stands between an engine and its executor and adds moves to the engine's plans, of pages that
//! the engine does not know: half of them go out while the other half comes in, without a pause.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terrace_cache::{Direction, MoveId, PageId, PageMove, StorePageId};
use terrace_engine::{
    Error, Executor, SamplingParams, SeqCache, Sequences, StepOutput, StepPlan, Wait,
};

/// Whether pages move, and how many have moved: out, and in.
#[derive(Clone, Default)]
pub struct MoveCounts {
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    is_moving: AtomicBool,
    out: AtomicU64,
    back: AtomicU64,
}

impl MoveCounts {
    /// Pages move from now on; how many have moved before.
    pub fn begin(&self) -> [u64; 2] {
        self.counts.is_moving.store(true, Ordering::Relaxed);
        self.pages()
    }

    /// No more are started; how many have moved since.
    pub fn end(&self, before: [u64; 2]) -> [u64; 2] {
        self.counts.is_moving.store(false, Ordering::Relaxed);
        let now = self.pages();
        [now[0] - before[0], now[1] - before[1]]
    }

    fn pages(&self) -> [u64; 2] {
        [&self.counts.out, &self.counts.back].map(|count| count.load(Ordering::Relaxed))
    }
}

pub struct MovesBeside {
    inner: Box<dyn Executor>,
    moved: MoveCounts,
    /// Batches of pages, each with where it goes next.
    idle: Vec<Batch>,
    under_way: Vec<(MoveId, Batch)>,
    /// Moves of the engine that have arrived, and were not asked for yet.
    arrived: VecDeque<MoveId>,
    next_id: u64,
}

struct Batch {
    pages: Vec<(PageId, StorePageId)>,
    next: Direction,
}

/// Moves under way in each direction: some are copied while others stand behind them.
const BATCHES: usize = 8;
/// The engine's own ids begin at the other end.
const FIRST_ID: u64 = 1 << 63;

impl MovesBeside {
    /// Uses the last `2 * pages_each` pages of the device and of the store.
    pub fn new(
        inner: Box<dyn Executor>,
        pages: usize,
        stored: usize,
        pages_each: usize,
        moved: MoveCounts,
    ) -> Self {
        let count = (2 * pages_each).min(pages).min(stored);
        let size = (count / (2 * BATCHES)).max(1);
        let pair = |index: usize| {
            (PageId((pages - 1 - index) as u32), StorePageId((stored - 1 - index) as u32))
        };
        let all: Vec<_> = (0..count).map(pair).collect();
        let batch = |(index, pages): (usize, &[_])| {
            let next = if index % 2 == 0 { Direction::SwapOut } else { Direction::SwapIn };
            Batch { pages: pages.to_vec(), next }
        };
        let idle = all.chunks(size).enumerate().map(batch).collect();
        let (under_way, arrived) = (Vec::new(), VecDeque::new());
        MovesBeside { inner, moved, idle, under_way, arrived, next_id: FIRST_ID }
    }

    /// Moves that are added to a plan.
    fn begin(&mut self) -> Vec<PageMove> {
        if !self.moved.counts.is_moving.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let begun = self.idle.drain(..).map(|batch| {
            self.next_id += 1;
            let id = MoveId(self.next_id);
            let begun = PageMove { id, direction: batch.next, pages: batch.pages.clone() };
            self.under_way.push((id, batch));
            begun
        });
        begun.collect()
    }

    fn take_arrived(&mut self, wait: Wait) -> Result<(), Error> {
        for id in self.inner.arrived_moves(wait)? {
            let Some(index) = self.under_way.iter().position(|(own, _)| *own == id) else {
                self.arrived.push_back(id);
                continue;
            };
            let (_, batch) = self.under_way.swap_remove(index);
            let (count, next) = match batch.next {
                Direction::SwapOut => (&self.moved.counts.out, Direction::SwapIn),
                Direction::SwapIn => (&self.moved.counts.back, Direction::SwapOut),
            };
            count.fetch_add(batch.pages.len() as u64, Ordering::Relaxed);
            self.idle.push(Batch { next, ..batch });
        }
        Ok(())
    }
}

impl Executor for MovesBeside {
    fn max_under_way(&self) -> usize {
        self.inner.max_under_way()
    }

    fn samples_on_device(&self, sampling: &SamplingParams) -> bool {
        self.inner.samples_on_device(sampling)
    }

    fn distinguishes_row_kinds(&self) -> bool {
        self.inner.distinguishes_row_kinds()
    }

    fn gives_embeddings(&self) -> bool {
        self.inner.gives_embeddings()
    }

    fn prepare(&mut self, cache: &SeqCache) -> Result<(), Error> {
        self.inner.prepare(cache)
    }

    fn start(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<(), Error> {
        self.take_arrived(Wait::No)?;
        let begun = self.begin();
        if begun.is_empty() {
            return self.inner.start(plan, seqs);
        }
        let mut plan = plan.clone();
        plan.moves.extend(begun);
        self.inner.start(&plan, seqs)
    }

    fn finish(&mut self) -> Result<StepOutput, Error> {
        self.inner.finish()
    }

    fn arrived_moves(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        self.take_arrived(Wait::No)?;
        while wait == Wait::ForOne && self.arrived.is_empty() {
            self.take_arrived(Wait::ForOne)?;
        }
        Ok(self.arrived.drain(..).collect())
    }

    fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<Vec<u8>>, Error> {
        self.inner.read_pages(pages)
    }
}
