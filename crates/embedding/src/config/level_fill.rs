//! How rows come into a level that holds a part of the tables, and how they leave it.

use super::fields::Fields;
use super::generation::Generation;
use super::overflow::OverflowConfig;
use super::scalar::Reals;
use super::update_filters::UpdateFilters;

#[derive(Clone, Debug, PartialEq)]
pub struct LevelFill {
    pub overflow: OverflowConfig,
    /// Whether the tables' files are read into the level at the start.
    pub initialize_after_startup: bool,
    /// The share of the level's capacity that is filled at the start where a table is larger.
    pub initial_cache_rate: f64,
    /// Whether rows that only the persistent level had are copied up.
    pub cache_missed_embeddings: bool,
    pub update_filters: UpdateFilters,
}

/// Has a meaning for both levels that hold a part of the tables.
pub const FILL_FIELDS: [&str; 9] = [
    "num_partitions",
    "overflow_margin",
    "overflow_policy",
    "overflow_resolution_target",
    "initialize_after_startup",
    "initial_cache_rate",
    "cache_missed_embeddings",
    "update_filters",
    "refresh_time_after_fetch",
];

impl LevelFill {
    pub(super) fn read(fields: &mut Fields<'_>, generation: Generation) -> Self {
        // Reads always count as a use of the row.
        fields.no_effect(&["refresh_time_after_fetch"]);
        LevelFill {
            overflow: OverflowConfig::read(fields, generation),
            initialize_after_startup: fields.flag("initialize_after_startup").unwrap_or(true),
            initial_cache_rate: fields.real("initial_cache_rate", Reals::Fraction).unwrap_or(1.0),
            cache_missed_embeddings: fields.flag("cache_missed_embeddings").unwrap_or(false),
            update_filters: UpdateFilters::read(fields),
        }
    }
}
