//! Sorts what may not fit into memory.
//!
//! One thread fills a buffer with events while another sorts the one before and writes it as a run.
//! Runs that are too many to be merged at once are merged in groups of neighbours first.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::merged_events::MergedEvents;
use super::run_writer::RunWriter;
use crate::dataset_error::DatasetError;
use crate::event::Event;

/// Takes events one by one.
pub type TakeEvent<'a> = &'a mut dyn FnMut(Event) -> Result<(), DatasetError>;

/// What the buffers take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortMemory(pub usize);

impl SortMemory {
    /// Two buffers, and what a stable sort takes for half of one.
    fn buffer_events(self) -> usize {
        let bytes = self.0 / 5 * 2;
        (bytes / size_of::<Event>()).max(2)
    }

    /// How many runs can be merged at once, each with a buffer that is worth a read.
    fn runs_at_once(self) -> usize {
        const LEAST_READ_BYTES: usize = 64 << 10;
        (self.0 / LEAST_READ_BYTES).max(2)
    }
}

/// Events by key, in files.
pub struct SortedRuns {
    paths: Vec<PathBuf>,
    pub events: u64,
    memory: SortMemory,
}

impl SortedRuns {
    pub fn merge(&self) -> Result<MergedEvents, DatasetError> {
        MergedEvents::open(&self.paths, self.memory.0)
    }
}

/// Takes what `fill` hands over, and leaves files in `folder`.
pub fn sort_events(
    folder: &Path,
    memory: SortMemory,
    fill: impl FnOnce(TakeEvent<'_>) -> Result<(), DatasetError>,
) -> Result<SortedRuns, DatasetError> {
    let runs = RunFiles { folder: folder.to_owned(), made: 0 };
    let (paths, events) = thread::scope(|scope| {
        let (full, to_sort) = channel();
        let (sorted, empty) = channel();
        for _ in 0..2 {
            let buffer = Vec::with_capacity(memory.buffer_events());
            sorted.send(buffer).expect("the other end is below");
        }
        let writer = scope.spawn(move || write_runs(runs, &to_sort, &sorted));
        let filled = fill_buffers(memory, &full, &empty, fill);
        drop(full);
        let written = writer.join().expect("sorting does not panic");
        // An error of the writer ends the filling too, and is the one to report.
        let (paths, files) = written?;
        Ok::<_, DatasetError>(((paths, files), filled?))
    })?;
    let (mut paths, mut files) = paths;
    while memory.runs_at_once() < paths.len() {
        paths = merged_in_groups(&paths, memory, &mut files)?;
    }
    Ok(SortedRuns { paths, events, memory })
}

/// Returns how many events there were.
fn fill_buffers(
    memory: SortMemory,
    full: &Sender<Vec<Event>>,
    empty: &Receiver<Vec<Event>>,
    fill: impl FnOnce(TakeEvent<'_>) -> Result<(), DatasetError>,
) -> Result<u64, DatasetError> {
    let mut events = 0;
    let mut buffer = Vec::new();
    fill(&mut |event| {
        if buffer.capacity() == 0 {
            // The writer is gone where it failed; what comes then is dropped.
            buffer = empty.recv().unwrap_or_else(|_| Vec::with_capacity(memory.buffer_events()));
        }
        buffer.push(event);
        events += 1;
        if buffer.len() == memory.buffer_events() {
            let writer_has_failed = full.send(std::mem::take(&mut buffer)).is_err();
            if writer_has_failed {
                let why = std::io::Error::other("the sorted events cannot be written");
                return Err(DatasetError::io("go on", Path::new("sorting"))(why));
            }
        }
        Ok(())
    })?;
    if !buffer.is_empty() {
        // Where the writer has failed, its error is reported.
        full.send(buffer).ok();
    }
    Ok(events)
}

fn write_runs(
    mut files: RunFiles,
    to_sort: &Receiver<Vec<Event>>,
    sorted: &Sender<Vec<Event>>,
) -> Result<(Vec<PathBuf>, RunFiles), DatasetError> {
    let mut paths = Vec::new();
    while let Ok(mut events) = to_sort.recv() {
        // Stable: of equal keys the first in the logs stays first.
        events.sort_by_key(Event::key);
        let mut run = files.create()?;
        for event in &events {
            run.push(event)?;
        }
        paths.push(run.finish()?);
        events.clear();
        // Nobody takes the last buffers.
        sorted.send(events).ok();
    }
    Ok((paths, files))
}

/// Fewer and longer runs, in the same order.
fn merged_in_groups(
    paths: &[PathBuf],
    memory: SortMemory,
    files: &mut RunFiles,
) -> Result<Vec<PathBuf>, DatasetError> {
    let mut longer = Vec::new();
    for group in paths.chunks(memory.runs_at_once()) {
        let mut events = MergedEvents::open(group, memory.0)?;
        let mut run = files.create()?;
        while let Some(event) = events.next_event()? {
            run.push(&event)?;
        }
        longer.push(run.finish()?);
        for path in group {
            std::fs::remove_file(path).map_err(DatasetError::io("remove", path))?;
        }
    }
    Ok(longer)
}

/// Names of runs in a folder.
struct RunFiles {
    folder: PathBuf,
    made: usize,
}

impl RunFiles {
    fn create(&mut self) -> Result<RunWriter, DatasetError> {
        let path = self.folder.join(format!("run-{}", self.made));
        self.made += 1;
        RunWriter::create(path)
    }
}

#[cfg(test)]
mod tests;
