//! Whether a request that begins at a position goes on from what is cached.

/// In the original's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    #[error("The input sequence has missing tokens from {first} to {last} (both inclusive).")]
    Missing { first: usize, last: usize },
    #[error("The input sequence has overlapping tokens from {first} to {last} (both inclusive).")]
    Overlapping { first: usize, last: usize },
}

/// A request must begin where the cached tokens end.
pub fn check_start(cached: usize, start: usize) -> Result<(), SpanError> {
    if cached < start {
        return Err(SpanError::Missing { first: cached, last: start - 1 });
    }
    if start < cached {
        return Err(SpanError::Overlapping { first: start, last: cached - 1 });
    }
    Ok(())
}
