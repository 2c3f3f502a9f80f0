//! From a data set's own files to sequences.
//!
//! Events of all logs are sorted by user and time on disk, then written user by user. In memory are
//! buffers of a fixed size, the table of users, and the events of one user.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::dataset::{DataFolder, Dataset, LogSource, UserSource};
use crate::dataset_error::DatasetError;
use crate::event::Event;
use crate::output::{
    InferenceReport, InferenceSequences, OutputFolder, SequenceReport, TrainingSequences,
};
use crate::sort::{SortMemory, SortedRuns, sort_events};
use crate::users::{RawTable, UserTable};

#[derive(Clone, Debug)]
pub struct PreprocessOptions {
    pub dataset: Dataset,
    /// Where the data set's archive is unpacked, or the folder of its tables.
    pub dataset_path: PathBuf,
    /// For buffers.
    pub memory_bytes: usize,
    /// Also writes sequences for inference, in intervals of so many seconds.
    pub inference_interval_seconds: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct PreprocessReport {
    pub sequences: SequenceReport,
    pub inference: Option<InferenceReport>,
    /// The files.
    pub written: Vec<PathBuf>,
}

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Bytes of logs.
    Reading { done: u64, of: u64 },
    /// Events of users.
    Writing { done: u64, of: u64 },
}

/// Nothing is written under its final name unless all is.
pub fn preprocess(
    options: &PreprocessOptions,
    report: &dyn Fn(Stage),
) -> Result<PreprocessReport, DatasetError> {
    let folder = source_folder(&options.dataset, &options.dataset_path);
    let source = options.dataset.source(&folder)?;
    if options.inference_interval_seconds.is_some() && source.inference.is_none() {
        return Err(DatasetError::NoTimes { dataset: options.dataset.to_string() });
    }
    let log_bytes = source.logs.bytes()?;
    let users = source.users.as_ref().map(UserSource::read).transpose()?;
    let output = OutputFolder::create(&folder.path)?;
    let runs = sort_events(output.scratch(), SortMemory(options.memory_bytes), |take| {
        let report = |done| report(Stage::Reading { done, of: log_bytes });
        source.logs.for_each(&report, take)
    })?;
    let tables = Tables::create(&output, &source, users.as_ref(), options)?;
    let (sequences, inference) = tables.write(&runs, report)?;
    if sequences.users == 0 {
        let features = if users.is_some() { " and in the table of users" } else { "" };
        return Err(DatasetError::NobodyLeft { files: source.logs.paths.len(), features });
    }
    let mut names = vec![TrainingSequences::NAME];
    if inference.is_some() {
        names.extend([InferenceSequences::SEQUENCES, InferenceSequences::BATCHES]);
    }
    Ok(PreprocessReport { sequences, inference, written: output.finish(&names)? })
}

/// Where the files of the data set are; sequences of one's own stand under their name.
fn source_folder(dataset: &Dataset, dataset_path: &Path) -> DataFolder {
    if let Dataset::Sequences { name, .. } = dataset {
        return DataFolder::at(dataset_path.join(name));
    }
    const FIRST_FILES: [&str; 4] = ["log_standard_", "ratings.", "u.data", "ml-100k.inter"];
    let is_log = |name: &str| FIRST_FILES.iter().any(|first| name.starts_with(first));
    DataFolder::find(dataset, dataset_path, is_log)
}

/// What is written.
struct Tables<'a> {
    training: TrainingSequences<'a>,
    inference: Option<InferenceSequences<'a>>,
}

/// Events that go from one thread to the other at once.
const BATCH_EVENTS: usize = 1 << 14;
const BATCHES_UNDER_WAY: usize = 4;

impl<'a> Tables<'a> {
    fn create(
        output: &OutputFolder,
        source: &'a LogSource,
        users: Option<&'a UserTable>,
        options: &PreprocessOptions,
    ) -> Result<Self, DatasetError> {
        let files = if source.joins_files { source.logs.paths.len() } else { 1 };
        let training = TrainingSequences::create(output, source.lists, users, files)?;
        let inference = match (source.inference, options.inference_interval_seconds) {
            (Some(columns), Some(interval)) => {
                let periods = &source.periods;
                Some(InferenceSequences::create(output, columns, users, periods, interval)?)
            }
            _ => None,
        };
        Ok(Tables { training, inference })
    }

    /// One thread merges, this one writes.
    fn write(
        mut self,
        runs: &SortedRuns,
        report: &dyn Fn(Stage),
    ) -> Result<(SequenceReport, Option<InferenceReport>), DatasetError> {
        thread::scope(|scope| {
            let (merged, batches) = sync_channel(BATCHES_UNDER_WAY);
            let merger = scope.spawn(move || send_merged(runs, &merged));
            let written = self.write_users(&batches, runs.events, report);
            // The merger ends where nobody takes what it has.
            drop(batches);
            merger.join().expect("merging does not panic")?;
            written
        })?;
        let inference = self.inference.map(InferenceSequences::finish).transpose()?;
        Ok((self.training.finish()?, inference))
    }

    fn write_users(
        &mut self,
        batches: &Receiver<Vec<Event>>,
        events: u64,
        report: &dyn Fn(Stage),
    ) -> Result<(), DatasetError> {
        let mut done = 0;
        let mut of_user: Vec<Event> = Vec::new();
        while let Ok(batch) = batches.recv() {
            for events in batch.chunk_by(|a, b| a.user == b.user) {
                if of_user.last().is_some_and(|last| last.user != events[0].user) {
                    self.write_user(&of_user)?;
                    of_user.clear();
                }
                of_user.extend_from_slice(events);
            }
            done += batch.len() as u64;
            report(Stage::Writing { done, of: events });
        }
        if of_user.is_empty() { Ok(()) } else { self.write_user(&of_user) }
    }

    fn write_user(&mut self, events: &[Event]) -> Result<(), DatasetError> {
        self.training.push(events)?;
        match &mut self.inference {
            Some(inference) => inference.push(events),
            None => Ok(()),
        }
    }
}

fn send_merged(runs: &SortedRuns, merged: &SyncSender<Vec<Event>>) -> Result<(), DatasetError> {
    let mut events = runs.merge()?;
    loop {
        let mut batch = Vec::with_capacity(BATCH_EVENTS);
        while batch.len() < BATCH_EVENTS
            && let Some(event) = events.next_event()?
        {
            batch.push(event);
        }
        if batch.is_empty() || merged.send(batch).is_err() {
            return Ok(());
        }
    }
}

impl UserSource {
    fn read(&self) -> Result<UserTable, DatasetError> {
        let raw = RawTable::read(&self.path, self.form)?;
        let columns = self.columns.listed(&raw, &self.path)?;
        Ok(UserTable::new(&raw, &columns))
    }
}

#[cfg(test)]
mod tests;
