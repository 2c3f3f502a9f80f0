//! What a pool's memory was taken for, and when: for tools that draw it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A run of memory that somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldMemory {
    pub address: u64,
    pub bytes: usize,
    pub what: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// Since the recording began.
    pub at: Duration,
    pub change: MemoryChange,
    pub memory: HeldMemory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    Taken,
    GivenBack,
}

/// What has happened, and what is held after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRecord {
    /// The newest ones, in their order.
    pub events: Vec<MemoryEvent>,
    pub held: Vec<HeldMemory>,
}

/// What a pool knows of its memory.
#[derive(Default)]
pub(crate) struct MemoryBook {
    held: BTreeMap<u64, HeldMemory>,
    recording: Option<Recording>,
}

struct Recording {
    start: Instant,
    most: usize,
    events: VecDeque<MemoryEvent>,
}

impl MemoryBook {
    /// Begins anew; older events than the newest `most` are forgotten.
    pub fn begin(&mut self, most: usize) {
        self.recording = Some(Recording { start: Instant::now(), most, events: VecDeque::new() });
    }

    /// Ends the recording; empty if there was none.
    pub fn end(&mut self) -> MemoryRecord {
        let events = self.recording.take().map(|recording| recording.events.into());
        let held = self.held.values().copied().collect();
        MemoryRecord { events: events.unwrap_or_default(), held }
    }

    pub fn take(&mut self, memory: HeldMemory) {
        self.note(MemoryChange::Taken, memory);
        self.held.insert(memory.address, memory);
    }

    pub fn give_back(&mut self, address: u64) {
        let memory = self.held.remove(&address).expect("memory is given back once");
        self.note(MemoryChange::GivenBack, memory);
    }

    fn note(&mut self, change: MemoryChange, memory: HeldMemory) {
        let Some(Recording { start, most, events }) = &mut self.recording else { return };
        if events.len() == *most {
            events.pop_front();
        }
        events.push_back(MemoryEvent { at: start.elapsed(), change, memory });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(address: u64) -> HeldMemory {
        HeldMemory { address, bytes: 16, what: "a test" }
    }

    #[test]
    fn the_newest_events_are_kept_and_what_is_held() {
        let mut book = MemoryBook::default();
        book.take(memory(1));
        book.begin(2);
        for address in [2, 3] {
            book.take(memory(address));
        }
        book.give_back(2);
        let MemoryRecord { events, held } = book.end();
        let changes: Vec<_> = events.iter().map(|it| (it.change, it.memory.address)).collect();
        assert_eq!(changes, [(MemoryChange::Taken, 3), (MemoryChange::GivenBack, 2)]);
        assert_eq!(held, [memory(1), memory(3)]);
        book.give_back(3);
        assert!(book.end().events.is_empty(), "nothing is recorded any more");
    }
}
