//! `processed_seqs_inference.csv` and `processed_batches.csv`: sequences as they grow, for serving.
//!
//! Where there are dates each has a sequence of its own. A sequence is divided into intervals,
//! which begin with an event and have all that follow within so many seconds; each is a row of the
//! second file, with the time of its last event and how much of the sequence there is then.

use super::list_column::push_list;
use super::output_folder::{OutputFolder, TableWriter};
use super::report::InferenceReport;
use crate::dataset::InferenceColumns;
use crate::dataset_error::DatasetError;
use crate::event::Event;
use crate::text::push_number;
use crate::users::UserTable;

pub struct InferenceSequences<'a> {
    /// Of each period, whose rows stand one after the other.
    tables: Vec<PeriodTables>,
    columns: InferenceColumns,
    users: Option<&'a UserTable>,
    /// Of each log file.
    periods: &'a [usize],
    interval_ticks: i64,
    report: InferenceReport,
    of_user: Vec<Event>,
}

struct PeriodTables {
    sequences: TableWriter,
    batches: TableWriter,
}

impl<'a> InferenceSequences<'a> {
    pub const SEQUENCES: &'static str = "processed_seqs_inference.csv";
    pub const BATCHES: &'static str = "processed_batches.csv";

    pub fn create(
        folder: &OutputFolder,
        columns: InferenceColumns,
        users: Option<&'a UserTable>,
        periods: &'a [usize],
        interval_seconds: u32,
    ) -> Result<Self, DatasetError> {
        let named = |name: &str, period: usize| match period {
            0 => folder.writer(name),
            _ => folder.writer(&format!("{name}-{period}")),
        };
        let tables = |period| {
            let sequences = named(Self::SEQUENCES, period)?;
            Ok(PeriodTables { sequences, batches: named(Self::BATCHES, period)? })
        };
        let count = periods.last().map_or(1, |last| last + 1);
        let mut tables = (0..count).map(tables).collect::<Result<Vec<_>, DatasetError>>()?;
        let first = &mut tables[0];
        let key: &[&str] = if columns.by_date { &["user_id", "date"] } else { &["user_id"] };
        let mut names = key.to_vec();
        names.extend(columns.lists.iter().map(|list| list.name));
        names.extend(["interval_indptr", "num_intervals"]);
        names.extend(users.iter().flat_map(|users| users.names()).map(String::as_str));
        push_header(&mut first.sequences, &names);
        push_header(&mut first.batches, &[key, &["interval_end_ts", "interval_indptr"]].concat());
        Ok(InferenceSequences {
            tables,
            columns,
            users,
            periods,
            interval_ticks: i64::from(interval_seconds) * columns.ticks_per_second,
            report: InferenceReport::default(),
            of_user: Vec::new(),
        })
    }

    /// The events of one user, in their order.
    pub fn push(&mut self, events: &[Event]) -> Result<(), DatasetError> {
        let row = self.users.map(|users| users.row(events[0].user));
        if row == Some(None) {
            return Ok(());
        }
        let row = row.flatten().unwrap_or_default();
        let (by_date, periods) = (self.columns.by_date, self.periods);
        let sequence = |event: &Event| {
            let date = if by_date { event.date } else { 0 };
            (periods[usize::from(event.file)], date)
        };
        let mut of_user = std::mem::take(&mut self.of_user);
        of_user.extend_from_slice(events);
        // Stable: inside a date events keep their order.
        of_user.sort_by_key(sequence);
        for events in of_user.chunk_by(|a, b| sequence(a) == sequence(b)) {
            self.push_sequence(sequence(&events[0]).0, events, row)?;
        }
        of_user.clear();
        self.of_user = of_user;
        Ok(())
    }

    fn push_sequence(
        &mut self,
        period: usize,
        events: &[Event],
        user_cells: &[u8],
    ) -> Result<(), DatasetError> {
        let PeriodTables { sequences, batches } = &mut self.tables[period];
        let bounds = interval_bounds(events, self.interval_ticks);
        let by_date = self.columns.by_date;
        let push_key = |out: &mut Vec<u8>| {
            push_number(out, events[0].user);
            if by_date {
                out.push(b',');
                push_number(out, i64::from(events[0].date));
            }
        };
        let out = &mut sequences.bytes;
        push_key(out);
        for list in self.columns.lists {
            out.push(b',');
            list.of.push(out, events);
        }
        out.push(b',');
        push_list(out, bounds.iter().map(|bound| *bound as i64));
        out.push(b',');
        push_number(out, bounds.len() as i64 - 1);
        out.extend_from_slice(user_cells);
        out.push(b'\n');
        for end in &bounds[1..] {
            let out = &mut batches.bytes;
            push_key(out);
            out.push(b',');
            push_number(out, events[end - 1].time);
            out.push(b',');
            push_number(out, *end as i64);
            out.push(b'\n');
        }
        self.report.sequences += 1;
        self.report.batches += bounds.len() as u64 - 1;
        sequences.flush_if_full()?;
        batches.flush_if_full()
    }

    pub fn finish(self) -> Result<InferenceReport, DatasetError> {
        let mut tables = self.tables.into_iter();
        let PeriodTables { mut sequences, mut batches } = tables.next().expect("there is one");
        for later in tables {
            sequences.append(later.sequences)?;
            batches.append(later.batches)?;
        }
        sequences.finish()?;
        batches.finish()?;
        Ok(self.report)
    }
}

fn push_header(table: &mut TableWriter, names: &[&str]) {
    table.bytes.extend_from_slice(names.join(",").as_bytes());
    table.bytes.push(b'\n');
}

/// Where intervals begin, and the end of the last.
fn interval_bounds(events: &[Event], interval_ticks: i64) -> Vec<usize> {
    let mut bounds = vec![0];
    let mut begun = events[0].time;
    for (index, event) in events.iter().enumerate().skip(1) {
        if interval_ticks <= event.time.saturating_sub(begun) {
            bounds.push(index);
            begun = event.time;
        }
    }
    bounds.push(events.len());
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_begin_with_an_event() {
        let bounds = |times: &[i64]| {
            let event = |time: &i64| Event { time: *time, ..Event::default() };
            interval_bounds(&times.iter().map(event).collect::<Vec<_>>(), 60)
        };
        assert_eq!(bounds(&[0]), [0, 1]);
        assert_eq!(bounds(&[5, 64, 65, 100, 124, 125]), [0, 2, 5, 6]);
        assert_eq!(bounds(&[7, 7, 7]), [0, 3]);
    }
}
