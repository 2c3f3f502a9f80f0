//! Tokens a second over the last seconds, without a thread that samples.

use std::time::Duration;

/// Whole seconds that are looked back on; the running one is not counted.
pub const WINDOW_SECONDS: u64 = 10;

/// Counts tokens into one bucket a second. Time is given by the caller, from any fixed start.
#[derive(Debug, Default)]
pub struct TokenRate {
    /// `buckets[s % len]` holds second `s` if its `second` says so.
    buckets: [Bucket; WINDOW_SECONDS as usize + 1],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    second: u64,
    tokens: u64,
}

impl TokenRate {
    pub fn add(&mut self, now: Duration, tokens: u64) {
        let second = now.as_secs();
        let buckets = self.buckets.len() as u64;
        let bucket = &mut self.buckets[(second % buckets) as usize];
        if bucket.second != second {
            *bucket = Bucket { second, tokens: 0 };
        }
        bucket.tokens += tokens;
    }

    pub fn per_second(&self, now: Duration) -> f64 {
        let second = now.as_secs();
        let window = second.saturating_sub(WINDOW_SECONDS)..second;
        let counted = self.buckets.iter().filter(|bucket| window.contains(&bucket.second));
        let tokens: u64 = counted.map(|bucket| bucket.tokens).sum();
        tokens as f64 / (window.end - window.start).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_after(adds: &[(u64, u64)], now: u64) -> f64 {
        let mut rate = TokenRate::default();
        for &(second, tokens) in adds {
            rate.add(Duration::from_secs(second), tokens);
        }
        rate.per_second(Duration::from_secs(now))
    }

    #[test]
    fn whole_seconds_are_averaged() {
        assert_eq!(rate_after(&[(20, 50), (25, 50), (25, 100)], 30), 20.0);
    }

    #[test]
    fn the_running_second_and_old_ones_do_not_count() {
        assert_eq!(rate_after(&[(30, 1000)], 30), 0.0);
        assert_eq!(rate_after(&[(5, 1000)], 30), 0.0);
        assert_eq!(rate_after(&[(19, 7), (30, 9)], 30), 0.0);
    }

    #[test]
    fn a_young_server_divides_by_its_age() {
        assert_eq!(rate_after(&[(0, 10), (1, 30)], 2), 20.0);
    }
}
