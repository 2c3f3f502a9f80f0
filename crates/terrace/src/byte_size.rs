//! Sizes of memory as people write them: `512MiB`, `1.5GiB`, `2GB`, `4096`.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub usize);

const BINARY: [(&str, u64); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const DECIMAL: [(&str, u64); 4] =
    [("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a number with KiB, MiB, GiB, kB, MB or GB, such as 1GiB".to_owned();
        let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim());
        let mut units = BINARY.iter().chain(&DECIMAL);
        let unit_bytes = match unit {
            "" | "B" => 1,
            unit => units.find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(wrong)?.1,
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let bytes = number * unit_bytes as f64;
        if bytes < isize::MAX as f64 {
            Ok(Self(bytes as usize))
        } else {
            Err("more than this machine can address".to_owned())
        }
    }
}

/// With the largest binary unit that keeps the number at 1 or above.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match BINARY.iter().rev().find(|(_, unit)| self.0 as u64 >= *unit) {
            Some((name, unit)) => write!(f, "{:.1} {name}", bytes / *unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<usize, &str>) {
        match (text.parse::<ByteSize>(), want) {
            (Ok(size), Ok(want)) => assert_eq!(size.0, want),
            (Err(error), Err(want)) => assert!(error.contains(want), "{error}"),
            (got, want) => panic!("{text}: got {got:?}, wanted {want:?}"),
        }
    }

    #[test]
    fn sizes_are_read() {
        check("4096", Ok(4096));
        check("1KiB", Ok(1024));
        check("1.5 GiB", Ok(3 << 29));
        check("2gb", Ok(2_000_000_000));
        check("", Err("such as 1GiB"));
        check("GiB", Err("such as 1GiB"));
        check("1 GigaByte", Err("such as 1GiB"));
        check("-1GiB", Err("such as 1GiB"));
        check("99999999999TiB", Err("more than"));
    }

    #[test]
    fn sizes_are_shown() {
        assert_eq!(ByteSize(17).to_string(), "17 B");
        assert_eq!(ByteSize(1536).to_string(), "1.5 KiB");
        assert_eq!(ByteSize(3 << 30).to_string(), "3.0 GiB");
    }
}
