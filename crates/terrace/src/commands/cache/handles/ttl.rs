//! Times as people write them: `90s`, `30m`, `24h`, `7d`, or seconds.

use std::fmt;
use std::str::FromStr;

/// In seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl(pub u64);

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

impl FromStr for Ttl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a time such as 90s, 30m, 24h or 7d".to_owned();
        let unit = UNITS.iter().find(|(letter, _)| text.ends_with(*letter));
        let (number, seconds) = match unit {
            Some((letter, seconds)) => (text.trim_end_matches(*letter), *seconds),
            None => (text, 1),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let seconds = number.checked_mul(seconds).ok_or_else(wrong)?;
        if seconds == 0 { Err(wrong()) } else { Ok(Self(seconds)) }
    }
}

/// In the largest unit that keeps the number at 1 or above.
impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, seconds)| self.0 >= *seconds);
        let (letter, seconds) = unit.unwrap_or(&('s', 1));
        write!(f, "{}{letter}", self.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, seconds, shown) in
            [("90s", 90, "1m"), ("30m", 1800, "30m"), ("36h", 129_600, "1d"), ("7", 7, "7s")]
        {
            let ttl: Ttl = text.parse().expect("a time");
            assert_eq!((ttl.0, ttl.to_string().as_str()), (seconds, shown));
        }
        for text in ["", "h", "0", "-1s", "1.5h", "1w", "99999999999999999999d"] {
            text.parse::<Ttl>().expect_err(text);
        }
    }
}
