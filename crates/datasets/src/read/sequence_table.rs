//! A table with a sequence in each row.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::id_list;
use crate::dataset_error::{DatasetError, excerpt};
use crate::text::whole_number;
use crate::users::of_csv;

/// Which columns are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceColumns {
    pub context: Vec<String>,
    pub item: String,
    pub action: Option<String>,
    pub time: Option<String>,
    /// Rows are of a user and a date.
    pub by_date: bool,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSequence {
    pub user: i64,
    /// 0 where rows have none.
    pub date: u32,
    /// One id for each contextual feature.
    pub context: Vec<i64>,
    /// Oldest first.
    pub items: Vec<i64>,
    /// As many as items, or none where they are not read.
    pub actions: Vec<i64>,
    pub times: Vec<i64>,
}

/// The rows, one after the other.
pub struct SequenceTable {
    path: PathBuf,
    reader: csv::Reader<File>,
    record: csv::ByteRecord,
    places: Places,
    names: Vec<String>,
}

/// Where columns are.
struct Places {
    user: usize,
    date: Option<usize>,
    context: Vec<usize>,
    item: usize,
    action: Option<usize>,
    time: Option<usize>,
}

/// The columns of a table.
pub fn column_names(path: &Path) -> Result<Vec<String>, DatasetError> {
    let file = File::open(path).map_err(DatasetError::io("open", path))?;
    names(&mut csv::Reader::from_reader(file), path)
}

fn names(reader: &mut csv::Reader<File>, path: &Path) -> Result<Vec<String>, DatasetError> {
    let header = reader.byte_headers().map_err(|error| of_csv(error, path))?;
    Ok(header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

const USER: &str = "user_id";
const DATE: &str = "date";

impl SequenceTable {
    pub fn open(path: &Path, columns: &SequenceColumns) -> Result<Self, DatasetError> {
        let file = File::open(path).map_err(DatasetError::io("open", path))?;
        let mut reader = csv::ReaderBuilder::new().from_reader(file);
        let names = names(&mut reader, path)?;
        let place = |name: &str| {
            let found = names.iter().position(|known| known == name);
            found.ok_or_else(|| DatasetError::MissingColumn {
                path: path.to_owned(),
                column: name.to_owned(),
                header: excerpt(names.join(", ").as_bytes()),
            })
        };
        let place_of = |name: &Option<String>| name.as_deref().map(place).transpose();
        let places = Places {
            user: place(USER)?,
            date: columns.by_date.then(|| place(DATE)).transpose()?,
            context: columns.context.iter().map(|name| place(name)).collect::<Result<_, _>>()?,
            item: place(&columns.item)?,
            action: place_of(&columns.action)?,
            time: place_of(&columns.time)?,
        };
        let record = csv::ByteRecord::new();
        Ok(SequenceTable { path: path.to_owned(), reader, record, places, names })
    }

    /// The next row.
    pub fn next_sequence(&mut self) -> Result<Option<UserSequence>, DatasetError> {
        if !self.next_record()? {
            return Ok(None);
        }
        self.current().map(Some)
    }

    /// Goes to the next row, of which nothing is read yet.
    pub(super) fn next_record(&mut self) -> Result<bool, DatasetError> {
        let read = self.reader.read_byte_record(&mut self.record);
        read.map_err(|error| of_csv(error, &self.path))
    }

    /// How many items the row has.
    pub(super) fn items(&self) -> usize {
        id_list::count(&self.record[self.places.item])
    }

    /// Whose row it is, and where it stands.
    pub(super) fn key(&self) -> Result<(i64, u32, csv::Position), DatasetError> {
        let position = self.record.position().expect("it was read from a file");
        Ok((self.number(self.places.user)?, self.date()?, position.clone()))
    }

    /// The row that stands somewhere.
    pub(super) fn sequence_at(
        &mut self,
        position: &csv::Position,
    ) -> Result<UserSequence, DatasetError> {
        let sought = self.reader.seek(position.clone());
        sought.map_err(|error| of_csv(error, &self.path))?;
        let is_there = self.next_record()?;
        assert!(is_there, "a row stands where one was read");
        self.current()
    }

    /// The row, read.
    pub(super) fn current(&self) -> Result<UserSequence, DatasetError> {
        let Places { context, item, action, time, .. } = &self.places;
        let items = self.list(*item)?;
        let list = |at: &Option<usize>| -> Result<Vec<i64>, DatasetError> {
            let Some(at) = *at else { return Ok(Vec::new()) };
            let list = self.list(at)?;
            if list.len() == items.len() {
                return Ok(list);
            }
            let expected = "as many numbers as there are items";
            let found = format!("{} numbers and {} items", list.len(), items.len());
            Err(self.bad_field(at, expected, found))
        };
        Ok(UserSequence {
            user: self.number(self.places.user)?,
            date: self.date()?,
            context: context.iter().map(|at| self.number(*at)).collect::<Result<_, _>>()?,
            actions: list(action)?,
            times: list(time)?,
            items,
        })
    }

    fn date(&self) -> Result<u32, DatasetError> {
        let Some(at) = self.places.date else { return Ok(0) };
        let date = self.number(at)?;
        u32::try_from(date).map_err(|_| self.bad_field(at, "a date as 20220408", date.to_string()))
    }

    fn number(&self, at: usize) -> Result<i64, DatasetError> {
        let cell = &self.record[at];
        whole_number(cell).ok_or_else(|| self.bad_field(at, "a whole number", excerpt(cell)))
    }

    fn list(&self, at: usize) -> Result<Vec<i64>, DatasetError> {
        let cell = &self.record[at];
        id_list::ids(cell).ok_or_else(|| self.bad_field(at, "a list as [1, 2]", excerpt(cell)))
    }

    fn bad_field(&self, at: usize, expected: &'static str, found: String) -> DatasetError {
        DatasetError::BadField {
            path: self.path.clone(),
            line: self.record.position().map_or(0, csv::Position::line),
            column: self.names[at].clone(),
            expected,
            found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, by_date: bool) -> Result<Vec<UserSequence>, DatasetError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let columns = SequenceColumns {
            context: vec!["user_id".to_owned(), "sex".to_owned()],
            item: "movie".to_owned(),
            action: Some("rating".to_owned()),
            time: None,
            by_date,
        };
        let mut table = SequenceTable::open(file.path(), &columns)?;
        let mut rows = Vec::new();
        while let Some(row) = table.next_sequence()? {
            rows.push(row);
        }
        Ok(rows)
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = "user_id,rating,date,movie,sex\n\
                    3,\"[1, 2]\",20220408,\"[10, 11]\",2\n4,[0],20220409,[5],1\n";
        let want = [
            UserSequence {
                user: 3,
                date: 20_220_408,
                context: vec![3, 2],
                items: vec![10, 11],
                actions: vec![1, 2],
                times: vec![],
            },
            UserSequence {
                user: 4,
                date: 20_220_409,
                context: vec![4, 1],
                items: vec![5],
                actions: vec![0],
                times: vec![],
            },
        ];
        assert_eq!(rows(text, true).unwrap(), want);
        assert_eq!(rows(text, false).unwrap()[0].date, 0);
    }

    #[test]
    fn bad_tables_are_named() {
        let error = |text: &str| rows(text, false).unwrap_err().to_string();
        assert!(error("user_id,rating,movie\n").contains("no column \"sex\""));
        let header = "user_id,rating,movie,sex\n";
        let row = |row: &str| error(&format!("{header}1,[1],[2],3\n{row}\n"));
        assert!(row("1,[1],[2]").contains("line 3: expected 4 columns, found 3"));
        assert!(row("x,[1],[2],3").contains("line 3, column user_id: expected a whole number"));
        assert!(row("1,\"[1, 2]\",[2],3").contains("column rating: expected as many numbers"));
        assert!(row("1,[1],[2,3,4").contains("expected 4 columns, found 5"));
        assert!(row("1,[1],x,3").contains("column movie: expected a list as [1, 2], found \"x\""));
    }
}
