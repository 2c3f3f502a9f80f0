//! How an engine stops.

/// Neither takes new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// After every request has finished.
    Drain,
    /// When the oldest step under way has ended; unfinished requests are cancelled.
    Now,
}
