//! What each level of memory holds of a model's keys and values.

use serde::Serialize;
use terrace_engine::{EngineStats, TierReading};
use utoipa::ToSchema;

/// One level, the fastest first. Of a shared one not all is known.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct KvLevel {
    /// `device`, `host`, `disk` or `redis`.
    level: String,
    /// Pages that sequences and copies under way use.
    pages_in_use: Option<u64>,
    /// Pages that nobody uses and that are known by their content.
    pages_cached: Option<u64>,
    /// All pages of a level of this server's own memory.
    pages_total: Option<u64>,
    /// Bytes of a lower level's files, its handles not counted.
    used_bytes: Option<u64>,
    /// The most that they may be.
    budget_bytes: Option<u64>,
}

pub fn levels(stats: &EngineStats, lower: &[TierReading]) -> Vec<KvLevel> {
    let of_pages = |level: &str, total: usize, available: usize, cached: usize| KvLevel {
        level: level.into(),
        pages_in_use: Some((total - available) as u64),
        pages_cached: Some(cached as u64),
        pages_total: Some(total as u64),
        used_bytes: None,
        budget_bytes: None,
    };
    let EngineStats { pages_total, pages_free, pages_cached, .. } = *stats;
    let EngineStats { store_pages_total, store_pages_free, store_pages_cached, .. } = *stats;
    let mut levels = vec![of_pages("device", pages_total, pages_free, pages_cached)];
    if 0 < store_pages_total {
        levels.push(of_pages("host", store_pages_total, store_pages_free, store_pages_cached));
    }
    levels.extend(lower.iter().map(|tier| KvLevel {
        level: tier.name.clone(),
        pages_in_use: None,
        pages_cached: tier.usage.records.map(|records| records as u64),
        pages_total: None,
        used_bytes: tier.usage.used_bytes,
        budget_bytes: tier.usage.budget_bytes,
    }));
    levels
}
