//! How times are spread, drawn with bars: one line for each doubling.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Of the longest bar.
const BAR_WIDTH: usize = 40;

/// Lines from the shortest time to the longest, none left out between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct DurationBars(Vec<Bar>);

/// Times from `ms` up to, but not at, its double.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bar {
    pub ms: f64,
    pub count: usize,
}

impl DurationBars {
    pub fn of(times: &[Duration]) -> Self {
        let doublings: Vec<i32> = times.iter().map(|&time| doubling(time)).collect();
        let (Some(&low), Some(&high)) = (doublings.iter().min(), doublings.iter().max()) else {
            return DurationBars::default();
        };
        let bar = |line| Bar {
            ms: 2f64.powi(line),
            count: doublings.iter().filter(|&&doubling| doubling == line).count(),
        };
        DurationBars((low..=high).map(bar).collect())
    }
}

impl fmt::Display for DurationBars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.0.iter().map(|bar| bar.count).max().unwrap_or(0);
        for Bar { ms, count } in &self.0 {
            let width = (count * BAR_WIDTH).div_ceil(longest);
            let (from, to) = (Milliseconds(*ms), Milliseconds(2.0 * ms));
            writeln!(f, "{from:>8} to {to:>6} ms  {:<BAR_WIDTH$}  {count}", "#".repeat(width))?;
        }
        Ok(())
    }
}

/// The power of two at or below a time in milliseconds. Shorter times than a quarter of one count
/// as that: they are events that lay ready when the client came to read.
fn doubling(time: Duration) -> i32 {
    (time.as_secs_f64() * 1e3).log2().floor().max(-2.0) as i32
}

struct Milliseconds(f64);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.0 < 1.0 { 2 } else { 0 };
        f.pad(&format!("{:.decimals$}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_doubling_has_a_line_also_an_empty_one() {
        let times = [1, 1, 1, 1, 9, 15, 8].map(Duration::from_millis);
        let bars = DurationBars::of(&times);
        let found: Vec<_> = bars.0.iter().map(|bar| (bar.ms, bar.count)).collect();
        assert_eq!(found, [(1.0, 4), (2.0, 0), (4.0, 0), (8.0, 3)]);
        let lines: Vec<_> =
            bars.to_string().lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(lines, [40, 0, 0, 30]);
    }

    #[test]
    fn no_times_have_no_lines_and_short_ones_share_one() {
        assert_eq!(DurationBars::of(&[]).to_string(), "");
        assert_eq!(DurationBars::of(&[Duration::ZERO, Duration::from_nanos(5)]).0.len(), 1);
    }
}
