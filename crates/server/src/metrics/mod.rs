//! What the service counts, in Prometheus' text format.
//!
//! Requests and latencies are counted as they happen (`request_metrics.rs`); an engine's own
//! numbers are read from it at each scrape (`engine_readings.rs`) and never kept.

mod engine_readings;
mod process_memory;
mod registered;
mod request_metrics;
pub mod scrape;
mod token_rate;

pub use request_metrics::RequestMetrics;
