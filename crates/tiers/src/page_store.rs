//! The one owner of pages that have left the device: host memory, taken at start.
//!
//! With a GPU the memory is pinned and side streams copy, one for each direction, beside the steps:
//! a copy begins when the work launched before it is done, and an event says when it has arrived.
//! On the CPU both sides are host memory, so a move is over when it is started. Threads of the
//! lower tiers read and fill pages too; whoever decides keeps them from those that are moved.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use terrace_cache::{Direction, KvBuffer, MoveId, PageMove};
use terrace_device::Device;
use terrace_device::cuda::{PinnedPages, PinnedPagesComing};
use terrace_kernels::{Error, MoveWay, PageMover, PageMoves, PageTransfer};

pub struct PageStore {
    pages: Arc<PinnedPages>,
    outward: Lane,
    inward: Lane,
}

/// Moves in one direction, which arrive in their order.
struct Lane {
    mover: PageMover,
    under_way: VecDeque<Moving>,
}

struct Moving {
    id: MoveId,
    /// Where each part of a page ends.
    part_ends: Vec<usize>,
    transfer: PageTransfer,
}

/// A store whose memory is being taken.
pub struct PageStoreComing {
    device: Device,
    pages: PinnedPagesComing,
    count: usize,
}

/// Whether to wait for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    No,
    ForOne,
}

impl PageStore {
    /// Begins to take memory for `pages` pages of the device; others may do something else
    /// meanwhile.
    pub fn begin(
        device: &Device,
        page_bytes: usize,
        pages: usize,
    ) -> Result<PageStoreComing, Error> {
        let coming = PinnedPages::begin(device, page_bytes, pages)?;
        Ok(PageStoreComing { device: device.clone(), pages: coming, count: pages })
    }

    /// The memory, for who fills and reads pages that are not being moved.
    pub fn pages(&self) -> &Arc<PinnedPages> {
        &self.pages
    }

    /// Begins a move. Nobody else writes what it reads, or uses what it writes, until it has
    /// arrived.
    pub fn start(&mut self, asked: &PageMove, kv: &mut KvBuffer) -> Result<(), Error> {
        let whole = 0..self.pages.page_bytes();
        self.start_parts(asked, kv, std::slice::from_ref(&whole))
    }

    /// As [`start`](Self::start), in parts that follow each other in a page: all pages of one part
    /// come before the next.
    pub fn start_parts(
        &mut self,
        asked: &PageMove,
        kv: &mut KvBuffer,
        parts: &[Range<usize>],
    ) -> Result<(), Error> {
        let page_bytes = self.pages.page_bytes();
        assert_eq!(kv.page_bytes(), page_bytes, "bytes of a page and of one in the store");
        let pairs = asked.pages.iter().map(|(page, stored)| (stored.index(), page.index()));
        let (lane, moves) = match asked.direction {
            Direction::SwapOut => {
                let held = pairs.map(|(stored, page)| {
                    (self.pages.try_write(stored).expect("nobody uses it"), page)
                });
                (&mut self.outward, PageMoves::Out(held.collect()))
            }
            Direction::SwapIn => {
                let held = pairs.map(|(stored, page)| {
                    (self.pages.try_read(stored).expect("nobody writes it"), page)
                });
                (&mut self.inward, PageMoves::In(held.collect()))
            }
        };
        lane.mover.follow_compute()?;
        let transfer = lane.mover.start(kv.pages_mut(), moves, parts)?;
        let part_ends = parts.iter().map(|part| part.end).collect();
        lane.under_way.push_back(Moving { id: asked.id, part_ends, transfer });
        Ok(())
    }

    /// What is launched on the compute stream from now on begins when the first `bytes` of all
    /// pages of a move have come.
    pub fn compute_waits(&self, id: MoveId, bytes: usize) {
        let lanes = self.outward.under_way.iter().chain(&self.inward.under_way);
        // A move that is not under way has arrived.
        for moving in lanes.filter(|moving| moving.id == id) {
            let part = moving.part_ends.iter().position(|end| bytes <= *end);
            moving.transfer.compute_waits(part.expect("bytes of a page"));
        }
    }

    /// The moves that have arrived since the last call. With [`Wait::ForOne`] some are under way,
    /// and it waits until one of them has arrived.
    pub fn arrived(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        let mut arrived = self.outward.arrived()?;
        arrived.extend(self.inward.arrived()?);
        if wait == Wait::ForOne && arrived.is_empty() {
            let first = |lane: &Lane| lane.under_way.front().map(|moving| moving.id);
            let is_outward = match (first(&self.outward), first(&self.inward)) {
                (Some(outward), Some(inward)) => outward < inward,
                (outward, _) => outward.is_some(),
            };
            let lane = if is_outward { &mut self.outward } else { &mut self.inward };
            arrived.extend(lane.wait_for_first()?);
        }
        Ok(arrived)
    }

    /// Waits until nothing is under way, and forgets what was: after an error.
    pub fn drain(&mut self) {
        self.outward.under_way.clear();
        self.inward.under_way.clear();
    }
}

impl PageStoreComing {
    /// Waits until the memory is there.
    pub fn wait(self) -> Result<PageStore, Error> {
        let PageStoreComing { device, pages, count } = self;
        let lane = |way| -> Result<Lane, Error> {
            let mover = PageMover::new(&device, way, count)?;
            Ok(Lane { mover, under_way: VecDeque::new() })
        };
        Ok(PageStore {
            pages: pages.wait()?,
            outward: lane(MoveWay::to_host(&device))?,
            inward: lane(MoveWay::to_device(&device))?,
        })
    }
}

impl Lane {
    fn arrived(&mut self) -> Result<Vec<MoveId>, Error> {
        let mut arrived = Vec::new();
        while let Some(moving) = self.under_way.front()
            && moving.transfer.has_come(moving.part_ends.len() - 1)?
        {
            arrived.extend(self.wait_for_first()?);
        }
        Ok(arrived)
    }

    fn wait_for_first(&mut self) -> Result<Option<MoveId>, Error> {
        let Some(moving) = self.under_way.pop_front() else { return Ok(None) };
        self.mover.finish(moving.transfer)?;
        Ok(Some(moving.id))
    }
}

#[cfg(test)]
mod tests {
    use terrace_cache::{PageId, StorePageId};

    use super::*;

    const PAGE_BYTES: usize = 3;

    fn fill(kv: &mut KvBuffer, page: u32, byte: u8) {
        kv.pages_mut().row_mut::<u8>(page as usize).fill(byte);
    }

    #[test]
    fn pages_come_back_as_they_left_to_other_places() {
        let mut kv = KvBuffer::new(&Device::Cpu, PAGE_BYTES, 4).expect("memory");
        let store = PageStore::begin(&Device::Cpu, PAGE_BYTES, 2).expect("memory");
        let mut store = store.wait().expect("memory");
        assert_eq!(store.arrived(Wait::No).expect("a CPU"), []);
        fill(&mut kv, 0, 5);
        fill(&mut kv, 3, 7);
        let stored = [StorePageId(1), StorePageId(0)];
        let out = [PageId(0), PageId(3)].into_iter().zip(stored).collect();
        let asked = PageMove { id: MoveId(1), direction: Direction::SwapOut, pages: out };
        store.start(&asked, &mut kv).expect("a CPU");
        assert_eq!(store.arrived(Wait::ForOne).expect("a CPU"), [MoveId(1)]);
        (0..4).for_each(|page| fill(&mut kv, page, 9));
        let back = [PageId(2), PageId(1)].into_iter().zip(stored).collect();
        let asked = PageMove { id: MoveId(2), direction: Direction::SwapIn, pages: back };
        store.start(&asked, &mut kv).expect("a CPU");
        assert_eq!(store.arrived(Wait::No).expect("a CPU"), [MoveId(2)]);
        let all = kv.pages_mut();
        let found: Vec<_> = (0..4).map(|page| all.as_view().row_bytes(page).to_vec()).collect();
        assert_eq!(found, [[9; 3], [7; 3], [5; 3], [9; 3]]);
    }
}
