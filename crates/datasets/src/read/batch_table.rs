//! When sequences had grown to which length: the traffic of a day, in its order.

use std::path::Path;

use crate::dataset_error::{DatasetError, excerpt};
use crate::text::whole_number;
use crate::users::of_csv;

/// The end of an interval of a user's sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalBatch {
    pub user: i64,
    /// 0 where rows have none.
    pub date: u32,
    /// Of the interval's last event.
    pub end_time: i64,
    /// Events of the sequence until then.
    pub events: usize,
}

/// All of a file, by date and time.
#[derive(Debug)]
pub struct BatchTable {
    pub batches: Vec<IntervalBatch>,
    pub by_date: bool,
}

impl BatchTable {
    pub fn read(path: &Path) -> Result<Self, DatasetError> {
        let mut reader = csv::Reader::from_path(path).map_err(|error| of_csv(error, path))?;
        let header = reader.headers().map_err(|error| of_csv(error, path))?.clone();
        let place = |name: &str| header.iter().position(|known| known == name);
        let needed = |name: &str| {
            place(name).ok_or_else(|| DatasetError::MissingColumn {
                path: path.to_owned(),
                column: name.to_owned(),
                header: header.iter().collect::<Vec<_>>().join(", "),
            })
        };
        let (user, date) = (needed("user_id")?, place("date"));
        let (end_time, events) = (needed("interval_end_ts")?, needed("interval_indptr")?);
        let mut batches = Vec::new();
        let mut record = csv::ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|error| of_csv(error, path))? {
            let bad = |at: usize, expected| DatasetError::BadField {
                path: path.to_owned(),
                line: record.position().map_or(0, csv::Position::line),
                column: header[at].to_owned(),
                expected,
                found: excerpt(&record[at]),
            };
            let number =
                |at: usize| whole_number(&record[at]).ok_or_else(|| bad(at, "a whole number"));
            let date_of = |at| {
                let date = number(at)?;
                u32::try_from(date).map_err(|_| bad(at, "a date as 20220408"))
            };
            let events_until = number(events)?;
            batches.push(IntervalBatch {
                user: number(user)?,
                date: date.map_or(Ok(0), date_of)?,
                end_time: number(end_time)?,
                events: usize::try_from(events_until)
                    .map_err(|_| bad(events, "a number of events"))?,
            });
        }
        batches.sort_by_key(|batch| (batch.date, batch.end_time));
        Ok(BatchTable { batches, by_date: date.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BatchTable, DatasetError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        BatchTable::read(file.path())
    }

    #[test]
    fn in_the_order_of_time() {
        let header = "user_id,date,interval_end_ts,interval_indptr\n";
        let table = read(&format!("{header}1,20220409,50,2\n2,20220408,90,3\n1,20220408,70,4\n"));
        let table = table.unwrap();
        let batch = |user, date, end_time, events| IntervalBatch { user, date, end_time, events };
        let want =
            [batch(1, 20_220_408, 70, 4), batch(2, 20_220_408, 90, 3), batch(1, 20_220_409, 50, 2)];
        assert_eq!((table.batches.as_slice(), table.by_date), (want.as_slice(), true));
        let table = read("user_id,interval_end_ts,interval_indptr\n1,5,2\n").unwrap();
        assert_eq!((table.batches, table.by_date), (vec![batch(1, 0, 5, 2)], false));
    }

    #[test]
    fn bad_tables_are_named() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("user_id,date\n").contains("no column \"interval_end_ts\""));
        let header = "user_id,interval_end_ts,interval_indptr\n";
        let negative = error(&format!("{header}1,5,-2\n"));
        assert!(negative.contains("line 2, column interval_indptr"), "{negative}");
        assert!(error(&format!("{header}1,x,2\n")).contains("expected a whole number"));
    }
}
