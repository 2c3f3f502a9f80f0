//! The numbers of recommenders' engines, read at the time of a scrape.

use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Opts, Registry};
use terrace_engine::rank::RankStats;

use crate::metrics::registered::registered;

/// One value for each model, and for each part of it.
pub fn gather(stats: &[(String, RankStats)]) -> Vec<MetricFamily> {
    let registry = Registry::new();
    for (name, help, label, read) in COUNTERS {
        let labels = ["model", label];
        let counter = registered(&registry, CounterVec::new(Opts::new(name, help), &labels));
        for (model, stats) in stats {
            for (part, value) in read(stats) {
                counter.with_label_values(&[model.as_str(), part]).inc_by(value);
            }
        }
    }
    for (name, help, label, read) in GAUGES {
        let gauge = registered(&registry, GaugeVec::new(Opts::new(name, help), &["model", label]));
        for (model, stats) in stats {
            for (part, value) in read(stats) {
                gauge.with_label_values(&[model.as_str(), part]).set(value);
            }
        }
    }
    registry.gather()
}

/// Name, help, what the parts are, and the parts.
type Values = (&'static str, &'static str, &'static str, fn(&RankStats) -> Vec<Part>);
type Part = (&'static str, f64);

const COUNTERS: [Values; 7] = [
    ("terrace_rank_requests_total", "Requests to recommenders that have ended.", "result", |it| {
        vec![("ok", (it.requests - it.failures) as f64), ("failed", it.failures as f64)]
    }),
    (
        "terrace_rank_tokens_total",
        "Tokens of histories: found on a level, or computed.",
        "source",
        |it| {
            vec![
                ("device", it.device_tokens as f64),
                ("host", it.host_tokens as f64),
                ("lower", it.lower_tokens as f64),
                ("computed", it.computed_tokens as f64),
            ]
        },
    ),
    ("terrace_rank_candidates_total", "Candidates that were scored.", "kind", |it| {
        vec![("scored", it.scored_candidates as f64)]
    }),
    ("terrace_rank_retrieved_items_total", "Items that were found.", "kind", |it| {
        vec![("found", it.retrieved_items as f64)]
    }),
    (
        "terrace_rank_unknown_ids_total",
        "Ids that a table had not got, which took its default row.",
        "kind",
        |it| vec![("default_row", it.unknown_ids as f64)],
    ),
    (
        "terrace_rank_dropped_tokens_total",
        "Cached tokens that went: of edited histories, of older versions, or for lack of room.",
        "reason",
        |it| {
            vec![
                ("edited", it.cache.edited_tokens as f64),
                ("stale", it.cache.stale_tokens as f64),
                ("evicted", it.cache.lost_tokens as f64),
            ]
        },
    ),
    ("terrace_rank_tier_pages_total", "Pages of users below host memory.", "what", |it| {
        vec![
            ("read", it.tier_pages.read as f64),
            ("written", it.tier_pages.written as f64),
            ("missed", it.tier_pages.missed as f64),
        ]
    }),
];

const GAUGES: [Values; 5] = [
    ("terrace_rank_requests", "Requests to recommenders that are under way.", "state", |it| {
        vec![("waiting", it.waiting as f64), ("running", it.running as f64)]
    }),
    ("terrace_rank_table_generation", "Version of the embedding tables.", "kind", |it| {
        vec![("served", f64::from(it.generation))]
    }),
    ("terrace_rank_users", "Users of whom something is cached.", "kind", |it| {
        vec![("known", it.users as f64)]
    }),
    ("terrace_rank_pages", "Pages of users' keys and values.", "level", |it| {
        vec![("device", it.pages as f64), ("host", it.host_pages as f64)]
    }),
    ("terrace_rank_pages_free", "Of these, pages that nobody has.", "level", |it| {
        vec![("device", it.free_pages as f64), ("host", it.free_host_pages as f64)]
    }),
];
