//! What the levels below host memory have done and hold, read at the time of a scrape.

use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Opts, Registry};
use terrace_engine::{TierError, TierReading};

use crate::metrics::registered::registered;

/// One value for each model and tier.
pub fn gather(readings: &[(String, TierReading)]) -> Vec<MetricFamily> {
    let registry = Registry::new();
    for (name, help, read) in COUNTERS {
        let labels = ["model", "tier"];
        let counter = registered(&registry, CounterVec::new(Opts::new(name, help), &labels));
        for (model, reading) in readings {
            counter.with_label_values(&[model, &reading.name]).inc_by(read(reading));
        }
    }
    for (name, help, read) in GAUGES {
        let labels = ["model", "tier"];
        let gauge = registered(&registry, GaugeVec::new(Opts::new(name, help), &labels));
        for (model, reading) in readings {
            if let Some(value) = read(reading) {
                gauge.with_label_values(&[model, &reading.name]).set(value);
            }
        }
    }
    let errors = Opts::new("terrace_tier_errors_total", "Calls of a tier that failed.");
    let labels = ["model", "tier", "kind"];
    let errors = registered(&registry, CounterVec::new(errors, &labels));
    for (model, reading) in readings {
        for (kind, count) in TierError::KINDS.iter().zip(reading.counters.calls.errors) {
            errors.with_label_values(&[model.as_str(), &reading.name, kind]).inc_by(count as f64);
        }
    }
    registry.gather()
}

type Value<T> = (&'static str, &'static str, fn(&TierReading) -> T);

const COUNTERS: [Value<f64>; 8] = [
    ("terrace_tier_hits_total", "KV pages that a tier was asked for and gave.", |tier| {
        tier.counters.records.hits as f64
    }),
    ("terrace_tier_misses_total", "KV pages that it was asked for and did not give.", |tier| {
        tier.counters.records.misses as f64
    }),
    ("terrace_tier_read_bytes_total", "Bytes that it gave.", |tier| {
        tier.counters.records.read_bytes as f64
    }),
    ("terrace_tier_written_bytes_total", "Bytes that it took and kept.", |tier| {
        tier.counters.records.written_bytes as f64
    }),
    ("terrace_tier_evictions_total", "KV pages that it gave up for others.", |tier| {
        tier.counters.records.evicted as f64
    }),
    ("terrace_tier_damaged_records_total", "Records that were not what they should be.", |tier| {
        tier.counters.records.damaged as f64
    }),
    ("terrace_tier_read_seconds_total", "Time in calls that read.", |tier| {
        tier.counters.calls.read_us as f64 / 1e6
    }),
    ("terrace_tier_write_seconds_total", "Time in calls that write.", |tier| {
        tier.counters.calls.write_us as f64 / 1e6
    }),
];

const GAUGES: [Value<Option<f64>>; 3] = [
    ("terrace_tier_bytes", "Bytes that a tier holds, where it knows.", |tier| {
        tier.usage.used_bytes.map(|bytes| bytes as f64)
    }),
    ("terrace_tier_budget_bytes", "Bytes that it may hold, where that is its own.", |tier| {
        tier.usage.budget_bytes.map(|bytes| bytes as f64)
    }),
    ("terrace_tier_open_breakers", "Whether reading, writing or both are refused now.", |tier| {
        let counters = &tier.counters;
        let open = u8::from(counters.calls.reads_are_refused)
            + u8::from(counters.calls.writes_are_refused);
        Some(f64::from(open))
    }),
];
