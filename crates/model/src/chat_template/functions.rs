//! What Hugging Face gives templates beyond Jinja itself.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, State, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::work_limit::{Size, pay_for};

/// The exception of a template, found again in the chain of causes.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Raised {
    pub message: String,
}

pub fn add_to(environment: &mut Environment<'_>) {
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "exception").with_source(Raised { message }))
}

/// The time in UTC: where the model runs says nothing about where its user is.
fn strftime_now(format: String) -> Result<String, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    strftime(&format, now.as_secs())
        .map_err(|problem| Error::new(ErrorKind::InvalidOperation, problem))
}

/// JSON as Python writes it: spaces after commas and colons, nothing escaped for HTML.
fn tojson(state: &mut State<'_, '_>, value: &Value, options: Kwargs) -> Result<String, Error> {
    pay_for(state, std::slice::from_ref(value), Size::Whole)?;
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    if options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false) {
        let problem = "tojson(ensure_ascii=true) is not supported";
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    options.assert_all_used()?;
    let (item, key) = match separators.as_deref() {
        None => (", ", ": "),
        Some([item, key]) => (item.as_str(), key.as_str()),
        Some(_) => {
            let problem = "tojson(separators=..) wants two texts";
            return Err(Error::new(ErrorKind::InvalidOperation, problem));
        }
    };
    match indent {
        Some(width) => {
            write_json(value, PrettyFormatter::with_indent(" ".repeat(width.min(8)).as_bytes()))
        }
        None => write_json(value, SeparatorFormatter { item, key }),
    }
}

fn write_json(value: &Value, formatter: impl Formatter) -> Result<String, Error> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, formatter)).map_err(|error| {
        Error::new(ErrorKind::BadSerialization, "cannot write as JSON").with_source(error)
    })?;
    Ok(String::from_utf8(out).expect("JSON is written as UTF-8"))
}

/// One line, with given separators.
struct SeparatorFormatter<'a> {
    item: &'a str,
    key: &'a str,
}

impl Formatter for SeparatorFormatter<'_> {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(self.item.as_bytes()) }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }
}

/// Python's `strftime` for a UTC time in seconds since 1970.
fn strftime(format: &str, seconds: u64) -> Result<String, String> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const WEEKDAYS: [&str; 7] =
        ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let month_name = MONTHS[month as usize - 1];
    let weekday = WEEKDAYS[(days % 7) as usize];

    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => out += &format!("{year}"),
            Some('y') => out += &format!("{:02}", year % 100),
            Some('m') => out += &format!("{month:02}"),
            Some('d') => out += &format!("{day:02}"),
            Some('B') => out += month_name,
            Some('b') => out += &month_name[..3],
            Some('A') => out += weekday,
            Some('a') => out += &weekday[..3],
            Some('H') => out += &format!("{:02}", second / 3600),
            Some('M') => out += &format!("{:02}", second / 60 % 60),
            Some('S') => out += &format!("{:02}", second % 60),
            Some('%') => out.push('%'),
            other => return Err(format!("time format %{} is not known", other.unwrap_or(' '))),
        }
    }
    Ok(out)
}

/// Year, month and day of a day since 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn times_are_written_as_python_writes_them() {
        let all = "%Y-%m-%d %H:%M:%S %B %b %A %a %y %%";
        let check = |seconds, want: &str| assert_eq!(strftime(all, seconds).as_deref(), Ok(want));
        check(0, "1970-01-01 00:00:00 January Jan Thursday Thu 70 %");
        check(951_782_400, "2000-02-29 00:00:00 February Feb Tuesday Tue 00 %");
        check(1_735_689_599, "2024-12-31 23:59:59 December Dec Tuesday Tue 24 %");
        check(4_107_542_400, "2100-03-01 00:00:00 March Mar Monday Mon 00 %");
        assert_eq!(strftime("%Q", 0), Err("time format %Q is not known".into()));
        assert_eq!(strftime("at %", 0), Err("time format %  is not known".into()));
    }
}
