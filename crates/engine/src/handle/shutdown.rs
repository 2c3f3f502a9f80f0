//! How an engine stops.

/// Neither takes new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// After every request has finished.
    Drain,
    /// Unfinished requests are cancelled; then what is known by content is copied to the lower
    /// tiers, so that the next engine finds it.
    Flush,
    /// When the oldest step under way has ended; unfinished requests are cancelled.
    Now,
}
