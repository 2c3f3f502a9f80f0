//! What was measured, as a table or as JSON.

use anyhow::Result;
use serde::Serialize;
use std::fmt;

use super::ranked_users::Taken;

#[derive(Debug, Serialize)]
pub struct HstuReport {
    pub device: String,
    pub users: usize,
    pub history: usize,
    pub new: usize,
    pub candidates: usize,
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub head_dim: usize,
    pub rows: Vec<StageRow>,
    /// Of scores with cached histories from those without, and of the scores themselves.
    pub largest_difference: f32,
    pub largest_score: f32,
}

#[derive(Debug, Serialize)]
pub struct StageRow {
    pub what: &'static str,
    pub median_us: f64,
    pub best_us: f64,
    pub worst_us: f64,
    /// Of the median's run, at work on a device.
    pub device_us: f64,
}

/// Runs that are not counted.
const WARM_UP: usize = 3;

impl StageRow {
    pub fn of(
        what: &'static str,
        repeat: usize,
        mut run: impl FnMut() -> Result<Taken>,
    ) -> Result<Self> {
        for _ in 0..WARM_UP {
            run()?;
        }
        let mut times = (0..repeat).map(|_| run()).collect::<Result<Vec<Taken>>>()?;
        times.sort_by_key(|taken| taken.all);
        let us = |at: usize| times[at].all.as_secs_f64() * 1e6;
        let median = times.len() / 2;
        Ok(StageRow {
            what,
            median_us: us(median),
            best_us: us(0),
            worst_us: us(times.len() - 1),
            device_us: times[median].device.as_secs_f64() * 1e6,
        })
    }
}

impl fmt::Display for HstuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HstuReport { device, users, history, new, candidates, .. } = self;
        let HstuReport { layers, hidden, heads, head_dim, .. } = self;
        writeln!(
            f,
            "{device}: {users} users of {history} tokens ({new} new), {candidates} candidates; \
             {layers} layers, hidden {hidden}, {heads} heads of {head_dim}"
        )?;
        writeln!(
            f,
            "{:<14} {:>11} {:>11} {:>11} {:>11}",
            "", "median ms", "device", "best", "worst"
        )?;
        for StageRow { what, median_us, device_us, best_us, worst_us } in &self.rows {
            let times = [median_us, device_us, best_us, worst_us].map(|us| us / 1000.0);
            let [median, device, best, worst] = times;
            writeln!(f, "{what:<14} {median:>11.3} {device:>11.3} {best:>11.3} {worst:>11.3}")?;
        }
        let (largest, score) = (self.largest_difference, self.largest_score);
        writeln!(f, "cached and uncached scores are {largest:.1e} apart, of up to {score:.2}")
    }
}
