//! What comes of a reload.

use terrace_cache::users::UserKey;

/// What a reload has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    pub change: ModelChange,
    /// Of the tables that are served now.
    pub generation: u32,
    /// The most recently used users, whose pages are of the model before.
    pub to_rewarm: Vec<(UserKey, Vec<i64>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelChange {
    /// The files are those that are served.
    None,
    /// The embedding tables alone: what is cached stays usable.
    Tables,
    /// The layers: nothing that was cached is found any more.
    Layers,
}
