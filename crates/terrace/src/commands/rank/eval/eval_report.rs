//! What `--mode eval` prints.

use std::fmt;

use serde::Serialize;

use super::metric_list::MetricList;
use super::token_counts::TokenCounts;

#[derive(Debug, Serialize)]
pub struct EvalReport {
    pub users: usize,
    /// Candidates that were scored, or items that were looked for.
    pub samples: usize,
    /// Ids that a table has not got, in all requests.
    pub unknown_ids: usize,
    /// Of the requests with samples.
    pub tokens: TokenCounts,
    pub metrics: MetricList,
}

impl EvalReport {
    /// What is worth knowing beside the metrics, on standard error.
    pub fn note(&self) {
        let TokenCounts { history, .. } = self.tokens;
        eprintln!(
            "note: {} users, {} samples, histories of {history} tokens, {:.1}% of them cached",
            self.users,
            self.samples,
            self.tokens.share(self.tokens.saved())
        );
        if 0 < self.unknown_ids {
            eprintln!(
                "note: {} ids are in no table, and were taken as its default row",
                self.unknown_ids
            );
        }
    }
}

impl fmt::Display for EvalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[eval]:\n{}", self.metrics)
    }
}
