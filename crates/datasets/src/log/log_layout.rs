//! What the columns of a log are, and a row of it as an event.

use std::path::Path;

use super::rating_code::RatingCode;
use crate::dataset_error::{DatasetError, excerpt};
use crate::event::Event;
use crate::text::{whole_number, whole_prefix};

/// What stands between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    Byte(u8),
    /// `::`, as MovieLens has it.
    TwoColons,
}

/// What a column is to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Item,
    Time,
    Date,
    PlayMs,
    DurationMs,
    /// Not 0 sets this bit of the action.
    Feedback(u8),
    Rating(RatingCode),
    Unused,
}

#[derive(Clone, Debug)]
pub struct LogColumn {
    pub name: String,
    pub role: Role,
}

/// The columns of a log file, in their order.
#[derive(Clone, Debug)]
pub struct LogLayout {
    delimiter: Delimiter,
    columns: Vec<LogColumn>,
}

/// What is wrong with a row.
#[derive(Debug, PartialEq, Eq)]
pub enum RowError {
    Field { column: usize, expected: &'static str, found: String },
    Columns { found: usize },
}

impl Delimiter {
    const fn first_byte(self) -> u8 {
        match self {
            Delimiter::Byte(byte) => byte,
            Delimiter::TwoColons => b':',
        }
    }

    /// Where a field ends.
    #[inline]
    fn end_of(self, bytes: &[u8]) -> usize {
        let end = match self {
            Delimiter::Byte(delimiter) => bytes.iter().position(|byte| *byte == delimiter),
            Delimiter::TwoColons => bytes.windows(2).position(|pair| pair == b"::"),
        };
        end.unwrap_or(bytes.len())
    }

    /// What follows a field that ends at `end`. `None` at the end of the line.
    #[inline]
    fn behind(self, bytes: &[u8], end: usize) -> Option<&[u8]> {
        match self {
            _ if end == bytes.len() => None,
            Delimiter::Byte(_) => Some(&bytes[end + 1..]),
            Delimiter::TwoColons => bytes[end..].strip_prefix(b"::"),
        }
    }

    pub fn fields(self, line: &[u8]) -> Vec<&[u8]> {
        let mut fields = Vec::new();
        let mut rest = Some(line);
        while let Some(bytes) = rest {
            let end = self.end_of(bytes);
            fields.push(&bytes[..end]);
            rest = self.behind(bytes, end);
        }
        fields
    }
}

impl LogLayout {
    /// Of a file without a header.
    pub fn fixed(delimiter: Delimiter, columns: &[(&str, Role)]) -> Self {
        let column = |(name, role): &(&str, Role)| LogColumn { name: (*name).into(), role: *role };
        LogLayout { delimiter, columns: columns.iter().map(column).collect() }
    }

    /// Of a file whose header names columns in any order; all that are `known` must be there.
    pub fn from_header(
        delimiter: Delimiter,
        known: &[(&str, Role)],
        header: &[u8],
        path: &Path,
    ) -> Result<Self, DatasetError> {
        const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
        let header = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
        let names = delimiter.fields(header).into_iter();
        let names = names.map(|name| String::from_utf8_lossy(name).trim_matches(QUOTES).to_owned());
        let column = |name: String| {
            let role = known.iter().find(|(known, _)| *known == name).map(|(_, role)| *role);
            LogColumn { name, role: role.unwrap_or(Role::Unused) }
        };
        let columns: Vec<LogColumn> = names.map(column).collect();
        let is_there = |name: &str| columns.iter().any(|column| column.name == name);
        if let Some((missing, _)) = known.iter().find(|(name, _)| !is_there(name)) {
            let header: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            return Err(DatasetError::MissingColumn {
                path: path.to_owned(),
                column: (*missing).to_owned(),
                header: excerpt(header.join(", ").as_bytes()),
            });
        }
        Ok(LogLayout { delimiter, columns })
    }

    pub fn columns(&self) -> &[LogColumn] {
        &self.columns
    }

    /// A row, without the end of its line.
    pub fn event(&self, line: &[u8]) -> Result<Event, RowError> {
        let mut event = Event::default();
        let mut rest = Some(line);
        for (index, column) in self.columns.iter().enumerate() {
            let Some(bytes) = rest else { return Err(RowError::Columns { found: index }) };
            let end = match column.role {
                Role::Unused => self.delimiter.end_of(bytes),
                Role::Rating(code) => {
                    let end = self.delimiter.end_of(bytes);
                    let action = code.action(&bytes[..end]);
                    event.action =
                        action.ok_or_else(|| wrong(index, code.expected(), &bytes[..end]))?;
                    end
                }
                role => {
                    let (number, end) = self.number(bytes).ok_or_else(|| {
                        let end = self.delimiter.end_of(bytes);
                        wrong(index, "a whole number", &bytes[..end])
                    })?;
                    set(&mut event, role, number)
                        .ok_or_else(|| wrong(index, "a date as 20220408", &bytes[..end]))?;
                    end
                }
            };
            rest = self.delimiter.behind(bytes, end);
        }
        match rest {
            None => Ok(event),
            Some(_) => Err(RowError::Columns { found: self.delimiter.fields(line).len() }),
        }
    }

    /// The number of the first field, and where that ends.
    #[inline]
    fn number(&self, bytes: &[u8]) -> Option<(i64, usize)> {
        if let Some((number, end)) = whole_prefix(bytes)
            && bytes.get(end).is_none_or(|byte| *byte == self.delimiter.first_byte())
        {
            return Some((number, end));
        }
        let end = self.delimiter.end_of(bytes);
        Some((whole_number(&bytes[..end])?, end))
    }
}

const QUOTES: &[char] = &['"', ' '];

fn wrong(column: usize, expected: &'static str, found: &[u8]) -> RowError {
    RowError::Field { column, expected, found: excerpt(found) }
}

/// `None` where the number is none of the role.
#[inline]
fn set(event: &mut Event, role: Role, number: i64) -> Option<()> {
    match role {
        Role::User => event.user = number,
        Role::Item => event.item = number,
        Role::Time => event.time = number,
        Role::PlayMs => event.play_ms = number,
        Role::DurationMs => event.duration_ms = number,
        Role::Feedback(bit) => event.action |= u8::from(number != 0) << bit,
        Role::Date => event.date = u32::try_from(number).ok()?,
        Role::Rating(_) | Role::Unused => unreachable!("they are no whole numbers"),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [(&str, Role); 5] = [
        ("user", Role::User),
        ("time", Role::Time),
        ("like", Role::Feedback(1)),
        ("date", Role::Date),
        ("click", Role::Feedback(0)),
    ];

    fn layout() -> LogLayout {
        let header = b"user,date,other,\"time\",click,like";
        LogLayout::from_header(Delimiter::Byte(b','), &ROLES, header, Path::new("log")).unwrap()
    }

    #[test]
    fn a_header_may_have_any_order_and_more_columns() {
        let event = layout().event(b"3,20220408,x y,-5,1,7").unwrap();
        let wanted = Event { user: 3, date: 20_220_408, time: -5, action: 3, ..Event::default() };
        assert_eq!(event, wanted);
        let event = layout().event(b"3,1,,\"5\",0,1.0").unwrap();
        assert_eq!((event.time, event.action), (5, 2));
    }

    #[test]
    fn bad_rows_are_named() {
        let error = |line: &[u8]| layout().event(line).unwrap_err();
        assert_eq!(error(b"3,1,x"), RowError::Columns { found: 3 });
        assert_eq!(error(b"3,1,x,5,1,7,8"), RowError::Columns { found: 7 });
        let field = |column, expected, found: &str| RowError::Field {
            column,
            expected,
            found: found.into(),
        };
        assert_eq!(error(b"3,1,x,5.5,1,7"), field(3, "a whole number", "5.5"));
        assert_eq!(error(b"3,1,x,12a,1,7"), field(3, "a whole number", "12a"));
        assert_eq!(error(b",1,x,5,1,7"), field(0, "a whole number", ""));
        assert_eq!(error(b"3,-1,x,5,1,7"), field(1, "a date as 20220408", "-1"));
        let large = "99999999999999999999";
        let row = format!("{large},1,x,5,1,7");
        assert_eq!(error(row.as_bytes()), field(0, "a whole number", large));
        assert_eq!(error(b"\xff\xfe,1,x,5,1,7"), field(0, "a whole number", "\u{fffd}\u{fffd}"));
    }

    #[test]
    fn a_column_that_is_missing_is_named() {
        let delimiter = Delimiter::Byte(b',');
        let error = LogLayout::from_header(delimiter, &ROLES, b"user,time", Path::new("x.csv"));
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "x.csv: no column \"like\"; the header has user, time");
    }

    #[test]
    fn two_colons() {
        let code = RatingCode::Stars;
        let roles = [("user", Role::User), ("rating", Role::Rating(code)), ("time", Role::Time)];
        let layout = LogLayout::fixed(Delimiter::TwoColons, &roles);
        let event = layout.event(b"1::5::978300760").unwrap();
        assert_eq!((event.user, event.action, event.time), (1, 4, 978_300_760));
        assert!(layout.event(b"1:5:978300760").is_err());
        assert!(layout.event(b"1::6::978300760").is_err());
    }
}
