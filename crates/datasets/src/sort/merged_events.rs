//! Several runs as one: the events of all, by key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::PathBuf;

use super::run_reader::RunReader;
use crate::dataset_error::DatasetError;
use crate::event::Event;

/// Of equal keys those of the first run come first, so that merging keeps the order of the logs.
pub struct MergedEvents {
    runs: Vec<RunReader>,
    /// The next event of each run.
    next: Vec<Event>,
    /// The key of that event, and the run.
    order: BinaryHeap<Reverse<(i64, i64, usize)>>,
}

impl MergedEvents {
    pub fn open(paths: &[PathBuf], memory_bytes: usize) -> Result<Self, DatasetError> {
        let each = memory_bytes / paths.len().max(1);
        let runs = paths.iter().map(|path| RunReader::open(path, each));
        let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
        let mut next = vec![Event::default(); runs.len()];
        let mut order = BinaryHeap::new();
        for (run, reader) in runs.iter_mut().enumerate() {
            if let Some(event) = reader.next_event()? {
                next[run] = event;
                order.push(Reverse((event.user, event.time, run)));
            }
        }
        Ok(MergedEvents { runs, next, order })
    }

    pub fn next_event(&mut self) -> Result<Option<Event>, DatasetError> {
        let Some(mut first) = self.order.peek_mut() else { return Ok(None) };
        let run = first.0.2;
        let event = self.next[run];
        match self.runs[run].next_event()? {
            Some(following) => {
                self.next[run] = following;
                *first = Reverse((following.user, following.time, run));
            }
            None => {
                PeekMut::pop(first);
            }
        }
        Ok(Some(event))
    }
}
