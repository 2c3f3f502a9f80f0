//! Why a tier did not do what it was asked.

use thiserror::Error;

/// Each message says what happened, where, and what to do. None of them is the end of a request:
/// what a tier does not give is computed again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TierError {
    /// Nobody answers, or whoever answers does not let us in.
    #[error("{0}")]
    Unavailable(String),
    /// No answer in the time that was given.
    #[error("{0}")]
    TimedOut(String),
    /// There is no room, and the tier may not make any.
    #[error("{0}")]
    Full(String),
    /// It can be read and not written.
    #[error("{0}")]
    ReadOnly(String),
    /// The operating system failed a file.
    #[error("{0}")]
    Io(String),
    /// An answer that makes no sense here.
    #[error("{0}")]
    Protocol(String),
}

impl TierError {
    /// The names of all kinds, for metrics.
    pub const KINDS: [&str; 6] =
        ["unavailable", "timed_out", "full", "read_only", "io", "protocol"];

    /// One of [`KINDS`](Self::KINDS).
    pub fn kind(&self) -> &'static str {
        Self::KINDS[self.kind_index()]
    }

    pub(crate) fn kind_index(&self) -> usize {
        match self {
            TierError::Unavailable(_) => 0,
            TierError::TimedOut(_) => 1,
            TierError::Full(_) => 2,
            TierError::ReadOnly(_) => 3,
            TierError::Io(_) => 4,
            TierError::Protocol(_) => 5,
        }
    }
}
