//! What the service counts, in Prometheus' text format.
//!
//! Requests and latencies are counted as they happen (`request_metrics.rs`); an engine's own
//! numbers, those of its tiers and those of tables are read at each scrape (`engine_readings.rs`,
//! `rank_readings.rs`, `tier_readings.rs`, `table_readings.rs`, `feed_readings.rs`,
//! `inference_readings.rs`) and never kept.

mod engine_readings;
mod feed_readings;
mod inference_readings;
mod process_memory;
mod rank_readings;
mod registered;
mod request_metrics;
pub mod scrape;
mod table_readings;
mod tier_readings;
mod token_rate;

pub use request_metrics::RequestMetrics;
