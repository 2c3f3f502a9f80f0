//! What a look-up does about rows that its hot cache has not got.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingRows {
    /// As the configuration says: fetched, or the default value for now where most are there.
    AsConfigured,
    /// Always fetched: what is computed from a row that stands in for another must not be kept.
    Fetched,
}
