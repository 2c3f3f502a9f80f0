//! What the service counts, in Prometheus' text format.
//!
//! Requests and latencies are counted as they happen (`request_metrics.rs`); an engine's own
//! numbers and those of its tiers are read at each scrape (`engine_readings.rs`,
//! `rank_readings.rs`, `tier_readings.rs`) and never kept.

mod engine_readings;
mod process_memory;
mod rank_readings;
mod registered;
mod request_metrics;
pub mod scrape;
mod tier_readings;
mod token_rate;

pub use request_metrics::RequestMetrics;
