//! The engines' own numbers, read at the time of a scrape.

use std::sync::Arc;

use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use terrace_engine::EngineStats;

use crate::language::ServedModel;
use crate::metrics::registered::registered;

/// One value for each model.
pub fn gather(models: &[Arc<ServedModel>]) -> Vec<MetricFamily> {
    let stats: Vec<_> = models.iter().map(|model| (model.name(), model.stats())).collect();
    let registry = Registry::new();
    let running = Opts::new("terrace_engine_running", "1 while the engine's thread runs.");
    let running = registered(&registry, IntGaugeVec::new(running, &["model"]));
    for model in models {
        running.with_label_values(&[model.name()]).set(i64::from(model.is_running()));
    }
    for (name, help, read) in GAUGES {
        let gauge = registered(&registry, IntGaugeVec::new(Opts::new(name, help), &["model"]));
        for (model, stats) in &stats {
            gauge.with_label_values(&[model]).set(read(stats) as i64);
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

type Gauge = (&'static str, &'static str, fn(&EngineStats) -> usize);
type Counter = (&'static str, &'static str, fn(&EngineStats) -> u64);

const GAUGES: [Gauge; 5] = [
    ("terrace_requests_waiting", "Sequences that wait for their turn.", |stats| stats.waiting),
    ("terrace_requests_running", "Sequences in the running batch.", |stats| stats.running),
    ("terrace_pages_total", "KV pages of the pool.", |stats| stats.pages_total),
    ("terrace_pages_free", "KV pages no sequence holds, cached ones included.", |stats| {
        stats.pages_free
    }),
    ("terrace_pages_cached", "Free KV pages whose content may be asked for again.", |stats| {
        stats.pages_cached
    }),
];

const COUNTERS: [Counter; 6] = [
    ("terrace_steps_total", "Steps of the engine.", |stats| stats.steps),
    ("terrace_prompt_tokens_total", "Prompt tokens computed.", |stats| stats.prompt_tokens),
    ("terrace_generated_tokens_total", "Tokens generated.", |stats| stats.generated_tokens),
    ("terrace_prefix_tokens_asked_total", "Prompt tokens looked up as prefixes.", |stats| {
        stats.prefix_tokens_asked
    }),
    ("terrace_prefix_tokens_hit_total", "Prompt tokens found among the prefixes.", |stats| {
        stats.prefix_tokens_hit
    }),
    ("terrace_preemptions_total", "Sequences that lost their turn.", |stats| stats.preemptions),
];
