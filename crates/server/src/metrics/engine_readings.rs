//! The engines' own numbers, read at the time of a scrape.

use std::sync::Arc;

use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use terrace_engine::EngineStats;

use crate::language::ServedModel;
use crate::metrics::registered::registered;

/// One value for each model.
pub fn gather(models: &[Arc<ServedModel>]) -> Vec<MetricFamily> {
    let stats: Vec<_> = models.iter().map(|model| (model.name(), model.engine().stats())).collect();
    let registry = Registry::new();
    let running = Opts::new("terrace_engine_running", "1 while the engine's thread runs.");
    let running = registered(&registry, IntGaugeVec::new(running, &["model"]));
    for model in models {
        running.with_label_values(&[model.name()]).set(i64::from(model.engine().is_running()));
    }
    for (name, help, read) in GAUGES {
        let gauge = registered(&registry, GaugeVec::new(Opts::new(name, help), &["model"]));
        for (model, stats) in &stats {
            gauge.with_label_values(&[model]).set(read(stats));
        }
    }
    for (name, help, read) in COUNTERS {
        let counter = registered(&registry, IntCounterVec::new(Opts::new(name, help), &["model"]));
        for (model, stats) in &stats {
            counter.with_label_values(&[model]).inc_by(read(stats));
        }
    }
    registry.gather()
}

type Value<T> = (&'static str, &'static str, fn(&EngineStats) -> T);

const GAUGES: [Value<f64>; 10] = [
    ("terrace_requests_waiting", "Sequences that wait to be scheduled.", |stats| {
        stats.waiting as f64
    }),
    ("terrace_requests_running", "Sequences in the running batch.", |stats| stats.running as f64),
    ("terrace_kv_cache_pages", "KV pages of the pool.", |stats| stats.pages_total as f64),
    ("terrace_kv_cache_pages_free", "KV pages no sequence holds, cached ones included.", |stats| {
        stats.pages_free as f64
    }),
    ("terrace_kv_cache_pages_cached", "Free KV pages that a prefix may still match.", |stats| {
        stats.pages_cached as f64
    }),
    ("terrace_kv_cache_usage_perc", "KV pages that sequences hold; 1 is all of them.", |stats| {
        1.0 - stats.pages_free as f64 / stats.pages_total.max(1) as f64
    }),
    ("terrace_host_tier_pages", "KV pages of host memory for what leaves the pool.", |stats| {
        stats.store_pages_total as f64
    }),
    ("terrace_host_tier_pages_free", "Those that can be taken, cached ones included.", |stats| {
        stats.store_pages_free as f64
    }),
    ("terrace_host_tier_pages_cached", "Those that a prefix may still match.", |stats| {
        stats.store_pages_cached as f64
    }),
    ("terrace_sessions", "Sessions whose KV pages are kept.", |stats| stats.sessions as f64),
];

const COUNTERS: [Value<u64>; 10] = [
    ("terrace_steps_total", "Steps of the engine.", |stats| stats.steps),
    ("terrace_prompt_tokens_total", "Prefill tokens computed.", |stats| stats.prompt_tokens),
    ("terrace_generation_tokens_total", "Tokens sampled.", |stats| stats.generated_tokens),
    ("terrace_prefix_cache_queries_total", "Prompt tokens looked up in it.", |stats| {
        stats.prefix_tokens_asked
    }),
    ("terrace_prefix_cache_hits_total", "Prompt tokens found in it.", |stats| {
        stats.prefix_tokens_hit
    }),
    ("terrace_preemptions_total", "Sequences preempted.", |stats| stats.preemptions),
    ("terrace_swaps_out_total", "Preempted sequences swapped out to host memory.", |stats| {
        stats.swaps_out
    }),
    ("terrace_swaps_in_total", "Sequences swapped in from host memory.", |stats| stats.swaps_in),
    ("terrace_pages_demoted_total", "KV pages copied to host memory ahead of need.", |stats| {
        stats.pages_demoted
    }),
    ("terrace_pages_promoted_total", "KV pages of prefixes fetched from host memory.", |stats| {
        stats.pages_promoted
    }),
];
