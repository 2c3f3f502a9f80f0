//! What several runs of the same measurement gave.

use std::fmt;

use serde::Serialize;

/// Rates of several runs. The best is what counts: other programs only ever slow a run down. How
/// far the others lie from it says how quiet the machine was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub best: f64,
    pub median: f64,
    pub least: f64,
}

impl Spread {
    pub fn of(mut rates: Vec<f64>) -> Self {
        rates.sort_by(f64::total_cmp);
        let least = *rates.first().expect("there is at least one run");
        let best = rates[rates.len() - 1];
        Spread { best, median: rates[rates.len() / 2], least }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { best, median, least } = self;
        f.pad(&format!("{best:.1} ({median:.1}, {least:.1})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_median_and_least_are_shown() {
        assert_eq!(Spread::of(vec![2.0]).to_string(), "2.0 (2.0, 2.0)");
        assert_eq!(format!("{:>16}", Spread::of(vec![2.0, 9.0, 1.0])), "  9.0 (2.0, 1.0)");
    }
}
