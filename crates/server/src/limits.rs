//! How much one request may cost the service.
//!
//! How many requests may wait is the engine's limit; it comes back as status 429.

use std::time::Duration;

/// Longest head of a request under HTTP/1: its first line and its headers.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
pub const HEADERS_MAX: usize = 100;
/// Longest path with its query.
pub const URI_BYTES_MAX: usize = 8 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request body; a longer one gets status 413.
    pub body_bytes: usize,
    /// Responses of one request: its prompts times `n`.
    pub choices: usize,
    /// Longest time from the request to its last token; 0 sets no limit. A late response is
    /// cancelled: status 504, or an error as the last event of a stream.
    pub request_seconds: u64,
    /// How long a connection may stay without a whole request: the next head, then its body.
    pub idle_time: Duration,
    /// How long a client may take nothing of its response.
    pub stall_time: Duration,
}

impl Limits {
    pub fn request_time(&self) -> Option<Duration> {
        (self.request_seconds != 0).then(|| Duration::from_secs(self.request_seconds))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 4 << 20,
            choices: 128,
            request_seconds: 1800,
            idle_time: Duration::from_secs(75),
            stall_time: Duration::from_secs(30),
        }
    }
}
