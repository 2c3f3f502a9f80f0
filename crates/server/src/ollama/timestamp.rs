//! Points in time as RFC 3339 writes them: `2026-01-31T08:05:09.120000Z`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;

/// Now, to the microsecond.
pub fn now() -> String {
    written(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub fn of_unix_seconds(seconds: u64) -> String {
    written(Duration::from_secs(seconds))
}

fn written(since_epoch: Duration) -> String {
    let (days, seconds) =
        (since_epoch.as_secs() / DAY_SECONDS, since_epoch.as_secs() % DAY_SECONDS);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of the Gregorian calendar, so many days after 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last of its year; then months have
/// 153 days in five, and 400 years have 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // From 0000-03-01.
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: u64, want: &str) {
        assert_eq!(of_unix_seconds(seconds), want);
    }

    #[test]
    fn known_times_are_written() {
        check(0, "1970-01-01T00:00:00.000000Z");
        check(951_782_399, "2000-02-28T23:59:59.000000Z");
        check(951_782_400, "2000-02-29T00:00:00.000000Z");
        check(951_868_800, "2000-03-01T00:00:00.000000Z");
        check(1_000_000_000, "2001-09-09T01:46:40.000000Z");
        check(4_107_542_400, "2100-03-01T00:00:00.000000Z");
        check(253_402_300_799, "9999-12-31T23:59:59.000000Z");
        let fraction = Duration::new(1, 20_304_999);
        assert_eq!(written(fraction), "1970-01-01T00:00:01.020304Z");
    }

    #[test]
    fn days_follow_each_other() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..150_000 {
            assert_eq!(date(days), (year, month, day));
            let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
            let leap_day = u64::from(is_leap && month == 2);
            day += 1;
            if day > lengths[month as usize - 1] + leap_day {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
