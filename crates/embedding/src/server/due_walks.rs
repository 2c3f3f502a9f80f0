//! When hot caches are walked because rows have changed.
//!
//! A look-up between the two halves of an update, this server's own and that of Redis, may bring
//! the old row into a hot cache. So caches are walked when rows have changed and then no more, and
//! once more later: another server may have been slow to write Redis. While rows change all the
//! time, they are walked from time to time.

use std::time::{Duration, Instant};

pub struct DueWalks {
    /// After so long without a change, each once.
    quiet: &'static [Duration],
    rows: u64,
    changed: Instant,
    walked: Instant,
    /// Since rows changed last.
    done: usize,
}

const QUIET: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];
const LONGEST: Duration = Duration::from_secs(30);

impl DueWalks {
    pub fn new(shares_redis: bool, now: Instant) -> Self {
        let quiet = if shares_redis { &QUIET[..] } else { &QUIET[..1] };
        DueWalks { quiet, rows: 0, changed: now, walked: now, done: quiet.len() }
    }

    /// With all rows that have come so far.
    pub fn is_due(&mut self, rows: u64, now: Instant) -> bool {
        if rows != self.rows {
            if self.done > 0 {
                self.walked = now;
            }
            (self.rows, self.changed, self.done) = (rows, now, 0);
        }
        let quiet_for = now.saturating_duration_since(self.changed);
        let is_quiet = self.quiet.get(self.done).is_some_and(|time| quiet_for >= *time);
        let waited = now.saturating_duration_since(self.walked);
        let is_overdue = self.done == 0 && waited >= LONGEST;
        if is_quiet {
            self.done += 1;
        }
        if is_quiet || is_overdue {
            self.walked = now;
        }
        is_quiet || is_overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows from a second on, and the seconds in which caches are walked.
    fn check(shares_redis: bool, changes: &[(u64, u64)], until: u64, want: &[u64]) {
        let start = Instant::now();
        let mut walks = DueWalks::new(shares_redis, start);
        let rows_at = |second| changes.iter().rev().find(|it| it.0 <= second).map_or(0, |it| it.1);
        let is_due =
            |second: &u64| walks.is_due(rows_at(*second), start + Duration::from_secs(*second));
        assert_eq!((1..until).filter(is_due).collect::<Vec<_>>(), want, "{changes:?}");
    }

    #[test]
    fn caches_are_walked_after_changes_and_once_more_where_others_write() {
        check(false, &[], 100, &[]);
        check(false, &[(10, 1)], 100, &[12]);
        check(true, &[(10, 1)], 100, &[12, 40]);
        check(true, &[(10, 1), (11, 2), (12, 3), (20, 9)], 100, &[14, 22, 50]);
        check(true, &[(10, 1), (80, 2)], 200, &[12, 40, 82, 110]);
    }

    #[test]
    fn changes_without_an_end_are_walked_from_time_to_time() {
        let changes: Vec<(u64, u64)> = (10..100).map(|second| (second, second)).collect();
        check(true, &changes, 120, &[40, 70, 100, 101]);
    }
}
