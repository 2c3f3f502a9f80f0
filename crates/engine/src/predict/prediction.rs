//! What comes back for a request.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    pub samples: usize,
    /// `[samples, outputs]`
    pub numbers: Vec<f32>,
    /// Samples that were computed together with these.
    pub batch: usize,
    pub times: PredictTimes,
}

/// Where the time of a request went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictTimes {
    /// Until its batch began.
    pub queue: Duration,
    /// Until the batch's rows and features were together.
    pub input: Duration,
    /// Until its numbers were computed.
    pub compute: Duration,
    /// Until they were sent on.
    pub output: Duration,
}
