//! What `--mode simulate` prints.

use std::fmt;

use serde::Serialize;

use super::metric_list::MetricList;
use super::token_counts::TokenCounts;
use crate::commands::percentiles::Percentiles;

#[derive(Debug, Serialize)]
pub struct SimulationReport {
    pub dates: usize,
    pub batches: usize,
    pub requests: usize,
    /// Candidates that were scored.
    pub samples: usize,
    /// Ids that a table has not got, in all requests.
    pub unknown_ids: usize,
    pub seconds: f64,
    /// Of histories.
    pub tokens: TokenCounts,
    /// Of requests with candidates, from the submission of their batch.
    pub latency_ms: Option<Percentiles>,
    pub metrics: MetricList,
}

impl fmt::Display for SimulationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SimulationReport { dates, batches, requests, tokens, .. } = self;
        writeln!(f, "[simulate]:")?;
        writeln!(
            f,
            "    {requests} requests in {batches} batches on {dates} dates, {:.1} s",
            self.seconds
        )?;
        writeln!(f, "    {} candidates scored, {} unknown ids", self.samples, self.unknown_ids)?;
        writeln!(f, "    history tokens: {}", tokens.history)?;
        for (name, found) in [
            ("found on the device", tokens.device),
            ("found in host memory", tokens.host),
            ("found on disk and in Redis", tokens.lower),
            ("computed", tokens.computed),
        ] {
            writeln!(f, "    {name}: {found} ({:.1}%)", tokens.share(found))?;
        }
        writeln!(f, "    saved: {} ({:.1}%)", tokens.saved(), tokens.share(tokens.saved()))?;
        if let Some(latency) = self.latency_ms {
            writeln!(f, "    latency: p50 {:.2} ms, p99 {:.2} ms", latency.p50, latency.p99)?;
        }
        write!(f, "[eval]:\n{}", self.metrics)
    }
}
