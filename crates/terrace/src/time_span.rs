//! Times as people write them: `90s`, `10m`, `2h`, `1d`, or a number of seconds.

use std::fmt;
use std::str::FromStr;

/// Whole seconds; those that are read are at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub u64);

const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

impl TimeSpan {
    /// In the largest unit that keeps the number at 1 or above, without the rest.
    pub fn rounded(self) -> Self {
        let unit = UNITS.iter().find(|(_, unit)| *unit <= self.0).map_or(1, |(_, unit)| *unit);
        TimeSpan(self.0 / unit * unit)
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a whole number above 0 with s, m, h or d, such as 10m".to_owned();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim());
        let unit_seconds = match unit {
            "" => 1,
            unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let seconds = number.checked_mul(unit_seconds).filter(|seconds| 0 < *seconds);
        seconds.map(TimeSpan).ok_or_else(wrong)
    }
}

/// In the largest unit of which it is a whole number.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = |unit: u64| unit <= self.0 && self.0.is_multiple_of(unit);
        let (name, unit) = UNITS.iter().find(|(_, unit)| is_whole(*unit)).unwrap_or(&("s", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, seconds, shown) in [
            ("600", 600, "10m"),
            ("90s", 90, "90s"),
            ("10m", 600, "10m"),
            ("24h", 86_400, "1d"),
            ("2 h", 7_200, "2h"),
        ] {
            let span: TimeSpan = text.parse().expect(text);
            assert_eq!((span.0, span.to_string().as_str()), (seconds, shown));
        }
        let too_large = ["99999999999999999999s", "99999999999999999999d"];
        let wrong = ["", "h", "m", "0", "0m", "-1s", "-1m", "1.5h", "10min", "1w"];
        for wrong in wrong.into_iter().chain(too_large) {
            let error = wrong.parse::<TimeSpan>().expect_err(wrong);
            assert!(error.contains("such as 10m"), "{wrong}: {error}");
        }
    }

    #[test]
    fn ages_are_shown_without_the_rest() {
        for (text, shown) in [("90s", "1m"), ("30m", "30m"), ("36h", "1d"), ("7", "7s")] {
            let span: TimeSpan = text.parse().expect(text);
            assert_eq!(span.rounded().to_string(), shown);
        }
        assert_eq!(TimeSpan(0).rounded().to_string(), "0s");
    }
}
