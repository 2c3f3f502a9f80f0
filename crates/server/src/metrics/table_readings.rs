//! What tables and their levels have done, read at the time of a scrape.

use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, IntCounter, Opts, Registry};
use terrace_embedding::{Level, LevelCounters, LevelKind, ServedSets, ServedTable, TableCounters};
use terrace_engine::TierError;

use crate::metrics::registered::registered;

/// One value for each table, and for each level of it; versions of a table that are served at the
/// same time count together. A table that models share has the names by which databases know it.
pub fn gather(sets: ServedSets<'_>) -> Vec<MetricFamily> {
    let registry = Registry::new();
    let refreshes = "How often the hot caches of a table were looked up again, whole.";
    let refreshes = Opts::new("terrace_table_cache_refreshes_total", refreshes);
    registered(&registry, IntCounter::with_opts(refreshes)).inc_by(sets.refreshes());
    add_tables(&registry, sets);
    add_levels(&registry, sets);
    registry.gather()
}

fn add_tables(registry: &Registry, sets: ServedSets<'_>) {
    let labels = ["model", "table"];
    let tables = || sets.tables().into_iter().map(|(_, table)| (names(table), table));
    for (name, help, read) in TABLE_COUNTERS {
        let counter = registered(registry, CounterVec::new(Opts::new(name, help), &labels));
        for (names, table) in tables() {
            counter.with_label_values(&names).inc_by(read(&table.counters()));
        }
    }
    let slots = Opts::new("terrace_table_cache_slots", "Rows that hot caches have room for.");
    let slots = registered(registry, GaugeVec::new(slots, &labels));
    for (names, table) in tables() {
        let count: usize = table.caches().iter().map(|cache| cache.cache().slots()).sum();
        slots.with_label_values(&names).add(count as f64);
    }
}

fn add_levels(registry: &Registry, sets: ServedSets<'_>) {
    let labels = ["model", "table", "level"];
    let levels = || {
        sets.tables().into_iter().flat_map(|(_, table)| {
            let [model, name] = names(table);
            table.levels().levels().iter().map(move |level| ([model, name, level.name()], level))
        })
    };
    for (name, help, read) in LEVEL_COUNTERS {
        let counter = registered(registry, CounterVec::new(Opts::new(name, help), &labels));
        for (names, level) in levels() {
            counter.with_label_values(&names).inc_by(read(&level.counters()));
        }
    }
    for (name, help, read) in LEVEL_GAUGES {
        let gauge = registered(registry, GaugeVec::new(Opts::new(name, help), &labels));
        for (names, level) in levels() {
            if let Some(value) = read(level) {
                gauge.with_label_values(&names).add(value);
            }
        }
    }
    let errors = Opts::new("terrace_table_level_errors_total", "Calls of a level that failed.");
    let errors =
        registered(registry, CounterVec::new(errors, &["model", "table", "level", "kind"]));
    for ([model, table, name], level) in levels() {
        for (kind, count) in TierError::KINDS.iter().zip(level.counters().calls.errors) {
            errors.with_label_values(&[model, table, name, kind]).inc_by(count as f64);
        }
    }
}

fn names(table: &ServedTable) -> [&str; 2] {
    let (model, table) = table.spec().tag.names();
    [model, table]
}

type Value<F, T> = (&'static str, &'static str, fn(&F) -> T);

const TABLE_COUNTERS: [Value<TableCounters, f64>; 11] = [
    ("terrace_table_lookups_total", "Look-ups in a table.", |it| it.lookups as f64),
    ("terrace_table_keys_total", "Keys that were looked up.", |it| it.keys as f64),
    ("terrace_table_unique_keys_total", "Of these, different ones within their look-ups.", |it| {
        it.unique as f64
    }),
    ("terrace_table_cache_hits_total", "Of the different ones, those in a hot cache.", |it| {
        it.hits as f64
    }),
    ("terrace_table_default_rows_total", "Rows that no level has: the default value.", |it| {
        it.defaults as f64
    }),
    (
        "terrace_table_deferred_rows_total",
        "Rows that were the default value because nobody waited for them.",
        |it| it.deferred as f64,
    ),
    (
        "terrace_table_unanswered_rows_total",
        "Rows that were the default value while a level failed that may have them.",
        |it| it.unanswered as f64,
    ),
    (
        "terrace_table_synchronous_lookups_total",
        "Look-ups that waited for rows of the levels.",
        |it| it.synchronous as f64,
    ),
    (
        "terrace_table_dropped_fills_total",
        "Fills of hot caches that were left out because too many waited.",
        |it| it.dropped_fills as f64,
    ),
    ("terrace_table_updated_rows_total", "Rows that updates have brought.", |it| it.updated as f64),
    ("terrace_table_lookup_seconds_total", "Time in look-ups.", |it| it.lookup_us as f64 / 1e6),
];

const LEVEL_COUNTERS: [Value<LevelCounters, f64>; 7] = [
    ("terrace_table_level_hits_total", "Keys that a level was asked for and had.", |it| {
        it.hits as f64
    }),
    ("terrace_table_level_misses_total", "Keys that it was asked for and did not give.", |it| {
        it.misses as f64
    }),
    ("terrace_table_level_written_rows_total", "Rows that were put into it.", |it| {
        it.written as f64
    }),
    ("terrace_table_level_refused_calls_total", "Calls that a breaker refused.", |it| {
        it.calls.refused as f64
    }),
    ("terrace_table_level_breaker_opened_total", "How often a breaker has opened.", |it| {
        it.calls.opened as f64
    }),
    ("terrace_table_level_read_seconds_total", "Time in calls that read.", |it| {
        it.calls.read_us as f64 / 1e6
    }),
    ("terrace_table_level_write_seconds_total", "Time in calls that write.", |it| {
        it.calls.write_us as f64 / 1e6
    }),
];

const LEVEL_GAUGES: [Value<Level, Option<f64>>; 3] = [
    (
        "terrace_table_level_open_breakers",
        "Whether reading, writing or both are refused now.",
        |level| {
            let calls = level.counters().calls;
            let open = u8::from(calls.reads_are_refused) + u8::from(calls.writes_are_refused);
            Some(f64::from(open))
        },
    ),
    (
        "terrace_table_level_suspended",
        "1 while look-ups pass it by until its rows are known to be right.",
        |level| Some(f64::from(u8::from(level.is_suspended()))),
    ),
    ("terrace_table_level_rows", "Rows of a table in memory.", |level| {
        // The others would have to ask a disk or another machine, at each scrape.
        let is_cheap = level.kind() == LevelKind::Ram;
        is_cheap.then(|| level.store().count().ok()).flatten().map(|rows| rows as f64)
    }),
];
