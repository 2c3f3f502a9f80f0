//! `processed_seqs.csv`: each user's whole sequence, for training and evaluation.

use super::list_column::ListColumn;
use super::output_folder::{OutputFolder, TableWriter};
use super::report::SequenceReport;
use crate::dataset_error::DatasetError;
use crate::event::Event;
use crate::text::push_number;
use crate::users::UserTable;

pub struct TrainingSequences<'a> {
    table: TableWriter,
    lists: &'static [ListColumn],
    users: Option<&'a UserTable>,
    /// How many log files a user must be in.
    files: usize,
    pub report: SequenceReport,
}

impl<'a> TrainingSequences<'a> {
    pub const NAME: &'static str = "processed_seqs.csv";

    pub fn create(
        folder: &OutputFolder,
        lists: &'static [ListColumn],
        users: Option<&'a UserTable>,
        files: usize,
    ) -> Result<Self, DatasetError> {
        let mut table = folder.writer(Self::NAME)?;
        let mut names = vec!["user_id"];
        names.extend(lists.iter().map(|list| list.name));
        names.extend(users.iter().flat_map(|users| users.names()).map(String::as_str));
        table.bytes.extend_from_slice(names.join(",").as_bytes());
        table.bytes.push(b'\n');
        let codes = users.map_or_else(Vec::new, |users| users.codes.clone());
        let report = SequenceReport { codes, ..SequenceReport::default() };
        Ok(TrainingSequences { table, lists, users, files, report })
    }

    /// The events of one user, in their order.
    pub fn push(&mut self, events: &[Event]) -> Result<(), DatasetError> {
        let user = events[0].user;
        let row = self.users.map(|users| users.row(user));
        if row == Some(None) || files_of(events) < self.files {
            self.report.users_left_out += 1;
            return Ok(());
        }
        self.report.add(events);
        let out = &mut self.table.bytes;
        push_number(out, user);
        for list in self.lists {
            out.push(b',');
            list.of.push(out, events);
        }
        out.extend_from_slice(row.flatten().unwrap_or_default());
        out.push(b'\n');
        self.table.flush_if_full()
    }

    pub fn finish(self) -> Result<SequenceReport, DatasetError> {
        self.table.finish()?;
        Ok(self.report)
    }
}

/// In how many log files there are some of these.
fn files_of(events: &[Event]) -> usize {
    let mut is_there = [false; 256];
    for event in events {
        is_there[usize::from(event.file)] = true;
    }
    is_there.iter().filter(|is_there| **is_there).count()
}
