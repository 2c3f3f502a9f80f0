//! How long things took: the middle, the slow ones, and the slowest.

use std::time::Duration;

use serde::Serialize;

/// In milliseconds; each is a time that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub largest: f64,
}

impl Percentiles {
    /// `None` when there are no times.
    pub fn of(times: &[Duration]) -> Option<Self> {
        let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let largest = *sorted.last()?;
        let at = |part| quantile(&sorted, part);
        Some(Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), largest })
    }
}

/// The number that so large a part of the others does not exceed.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ms: impl Iterator<Item = u64>, want: [f64; 4]) {
        let times: Vec<Duration> = ms.map(Duration::from_millis).collect();
        let Percentiles { p50, p90, p99, largest } = Percentiles::of(&times).expect("some times");
        assert_eq!([p50, p90, p99, largest], want);
    }

    #[test]
    fn percentiles_are_times_that_were_seen() {
        check((1..=1000).rev(), [500.0, 900.0, 990.0, 1000.0]);
        check([3, 1, 2].into_iter(), [2.0, 3.0, 3.0, 3.0]);
        check([7].into_iter(), [7.0; 4]);
        assert_eq!(Percentiles::of(&[]), None);
    }
}
