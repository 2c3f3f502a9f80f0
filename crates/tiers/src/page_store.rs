//! The one owner of pages that have left the device: host memory, taken at start.
//!
//! On a GPU the memory is pinned and a side stream copies, beside the steps: a copy begins when the
//! work launched before it is done, and an event says when it has arrived. On the CPU both sides
//! are the same memory, so a move is over when it is started.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace_cache::{Direction, KvBuffer, MoveId, PageMove};
use terrace_device::cuda::{CopyStream, CudaEvent, PinnedBuffer};
use terrace_device::{Buffer, Device, Error};

pub struct PageStore {
    page_bytes: usize,
    memory: Memory,
}

enum Memory {
    Host { buffer: Buffer, arrived: Vec<MoveId> },
    Pinned { buffer: PinnedBuffer, stream: CopyStream, under_way: VecDeque<(MoveId, CudaEvent)> },
}

/// Whether to wait for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    No,
    ForOne,
}

impl PageStore {
    /// Takes memory for `pages` pages of the device.
    pub fn new(device: &Device, page_bytes: usize, pages: usize) -> Result<Self, Error> {
        let bytes = pages.saturating_mul(page_bytes);
        let memory = match device {
            Device::Cpu => Memory::Host {
                buffer: Buffer::zeroed(bytes, "the page store")?,
                arrived: Vec::new(),
            },
            Device::Cuda(device) => Memory::Pinned {
                buffer: device.pinned(bytes)?,
                stream: CopyStream::new(Arc::clone(device))?,
                under_way: VecDeque::new(),
            },
        };
        Ok(PageStore { page_bytes, memory })
    }

    /// Begins a move. Nobody else writes what it reads, or uses what it writes, until it has
    /// arrived.
    pub fn start(&mut self, asked: &PageMove, kv: &mut KvBuffer) -> Result<(), Error> {
        let page_bytes = self.page_bytes;
        assert_eq!(kv.page_bytes(), page_bytes, "bytes of a page and of one in the store");
        match &mut self.memory {
            Memory::Host { buffer, arrived } => {
                for (page, stored) in &asked.pages {
                    let start = stored.index() * page_bytes;
                    let stored = &mut buffer.bytes_mut()[start..start + page_bytes];
                    let mut pages = kv.pages_mut();
                    let page = pages.row_mut::<u8>(page.index());
                    match asked.direction {
                        Direction::SwapOut => stored.copy_from_slice(page),
                        Direction::SwapIn => page.copy_from_slice(stored),
                    }
                }
                arrived.push(asked.id);
            }
            Memory::Pinned { buffer, stream, under_way } => {
                stream.follow_compute()?;
                for (page, stored) in &asked.pages {
                    let offset = stored.index() * page_bytes;
                    let page = kv.pages_mut().rows(page.index()..page.index() + 1);
                    match asked.direction {
                        Direction::SwapOut => stream.copy_from(buffer, offset, page.as_view())?,
                        Direction::SwapIn => stream.copy_to(buffer, offset, &page)?,
                    }
                }
                under_way.push_back((asked.id, stream.mark()?));
            }
        }
        Ok(())
    }

    /// The moves that have arrived since the last call. With [`Wait::ForOne`] some are under way,
    /// and it waits until one of them has arrived.
    pub fn arrived(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        let (stream, under_way) = match &mut self.memory {
            Memory::Host { arrived, .. } => return Ok(std::mem::take(arrived)),
            Memory::Pinned { stream, under_way, .. } => (stream, under_way),
        };
        let mut arrived = Vec::new();
        while let Some((id, event)) = under_way.front() {
            if wait == Wait::ForOne && arrived.is_empty() {
                event.wait()?;
            } else if !event.has_come()? {
                break;
            }
            arrived.push(*id);
            let (_, event) = under_way.pop_front().expect("it was the first");
            stream.recycle(event);
        }
        Ok(arrived)
    }

    /// Waits until nothing is under way, and forgets what was: after an error.
    pub fn drain(&mut self) {
        match &mut self.memory {
            Memory::Host { arrived, .. } => arrived.clear(),
            Memory::Pinned { stream, under_way, .. } => {
                stream.synchronize();
                under_way.drain(..).for_each(|(_, event)| stream.recycle(event));
            }
        }
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
        let mut store = PageStore::new(&Device::Cpu, PAGE_BYTES, 2).expect("memory");
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
