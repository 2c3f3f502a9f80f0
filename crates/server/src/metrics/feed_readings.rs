//! What consumers of updates have done, read at the time of a scrape.

use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Opts, Registry};
use terrace_embedding::{ConsumerCounters, DropReason, UpdateScope};

use crate::metrics::registered::registered;

/// One value for the consumers of this server's own levels, and one for those of the shared one. Of
/// several, as sets of tables have them that were started one after the other, the worst counts.
pub fn gather(consumers: &[(UpdateScope, ConsumerCounters)]) -> Vec<MetricFamily> {
    let registry = Registry::new();
    for (name, help, read) in COUNTERS {
        let counter = registered(&registry, CounterVec::new(Opts::new(name, help), &["scope"]));
        for (scope, counters) in consumers {
            counter.with_label_values(&[scope.name()]).inc_by(read(counters));
        }
    }
    for (name, help, read) in GAUGES {
        let gauge = registered(&registry, GaugeVec::new(Opts::new(name, help), &["scope"]));
        for scope in [UpdateScope::Own, UpdateScope::Shared] {
            let of_scope = consumers.iter().filter(|(of, _)| *of == scope);
            let worst = of_scope.map(|(_, counters)| read(counters)).reduce(f64::min);
            if let Some(worst) = worst {
                gauge.with_label_values(&[scope.name()]).set(worst);
            }
        }
    }
    let dropped = "Messages of which nothing was applied, by reason.";
    let dropped = Opts::new("terrace_update_dropped_messages_total", dropped);
    let dropped = registered(&registry, CounterVec::new(dropped, &["scope", "reason"]));
    for (scope, counters) in consumers {
        for reason in DropReason::ALL {
            let count = counters.dropped_for(reason) as f64;
            dropped.with_label_values(&[scope.name(), reason.name()]).inc_by(count);
        }
    }
    add_lags(&registry, consumers);
    registry.gather()
}

fn add_lags(registry: &Registry, consumers: &[(UpdateScope, ConsumerCounters)]) {
    let messages = "Messages of a topic that are published and not applied.";
    let messages = Opts::new("terrace_update_lag_messages", messages);
    let age = "Since the last applied message of a topic was published.";
    let age = Opts::new("terrace_update_lag_seconds", age);
    let [messages, age] =
        [messages, age].map(|opts| registered(registry, GaugeVec::new(opts, &["scope", "topic"])));
    for (scope, counters) in consumers {
        for lag in &counters.topics {
            let labels = [scope.name(), &lag.topic];
            let messages = messages.with_label_values(&labels);
            messages.set(messages.get().max(lag.messages as f64));
            if let Some(age_ms) = lag.age_ms {
                let age = age.with_label_values(&labels);
                age.set(age.get().max(age_ms as f64 / 1e3));
            }
        }
    }
}

type Value = (&'static str, &'static str, fn(&ConsumerCounters) -> f64);

const COUNTERS: [Value; 8] = [
    ("terrace_update_messages_total", "Messages that came.", |it| it.messages as f64),
    ("terrace_update_rows_total", "Rows that were applied.", |it| it.rows as f64),
    ("terrace_update_dense_versions_total", "Versions of dense weights that were applied.", |it| {
        it.dense_versions as f64
    }),
    ("terrace_update_beacons_total", "Messages that say only that a producer lives.", |it| {
        it.beacons as f64
    }),
    ("terrace_update_apply_errors_total", "Deliveries that a level did not take.", |it| {
        it.apply_errors as f64
    }),
    ("terrace_update_retries_total", "Deliveries that were tried again.", |it| it.retries as f64),
    ("terrace_update_commits_total", "Commits that a broker has confirmed.", |it| {
        it.commits as f64
    }),
    ("terrace_update_commit_errors_total", "Commits that failed.", |it| it.commit_errors as f64),
];

const GAUGES: [Value; 2] = [
    ("terrace_update_connected", "1 while a broker answers.", |it| {
        f64::from(u8::from(it.is_connected))
    }),
    ("terrace_update_running", "1 while the consumer's thread runs.", |it| {
        f64::from(u8::from(it.is_running))
    }),
];
