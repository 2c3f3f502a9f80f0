//! How well a model does on cases that it does not learn from.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidationRecord {
    /// After which step; 0 is before the first.
    pub step: u64,
    pub loss: f64,
    /// The share of generated samples that are right.
    pub metric: Option<f64>,
    pub cases: u64,
    pub seconds: f64,
}
