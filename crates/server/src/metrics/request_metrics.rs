//! What the service counts of its requests, as they happen.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use prometheus::proto::MetricFamily;
use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use terrace_engine::rank::StageTimes;

use crate::metrics::registered::registered;
use crate::metrics::token_rate::TokenRate;

pub struct RequestMetrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    time_to_first_token: HistogramVec,
    inter_token_latency: HistogramVec,
    rank_stage_seconds: HistogramVec,
    tokens_per_second: Gauge,
    token_rate: Mutex<TokenRate>,
    started: Instant,
}

impl RequestMetrics {
    pub fn new() -> Self {
        let registry = Registry::new();
        let requests = Opts::new(
            "terrace_requests_total",
            "Requests by route and status; 499 is a client that left before the status line.",
        );
        let request_seconds = doubling_buckets(
            "terrace_request_duration_seconds",
            "From the request to the end of its response.",
        );
        let time_to_first_token = doubling_buckets(
            "terrace_time_to_first_token_seconds",
            "From the request to its first token.",
        );
        let inter_token_latency = doubling_buckets(
            "terrace_inter_token_latency_seconds",
            "Between one token of an output and the next.",
        );
        let rank_stage_seconds = HistogramOpts::new(
            "terrace_rank_stage_seconds",
            "How long requests to recommenders were queued, fetched pages, and were computed.",
        );
        let bounds = prometheus::exponential_buckets(0.00005, 2.0, 20).expect("positive bounds");
        let rank_stage_seconds = rank_stage_seconds.buckets(bounds);
        let tokens_per_second = Opts::new(
            "terrace_generation_tokens_per_second",
            "Tokens sent to clients a second, over the last ten seconds.",
        );
        Self {
            requests: registered(&registry, IntCounterVec::new(requests, &["route", "status"])),
            request_seconds: registered(&registry, HistogramVec::new(request_seconds, &["route"])),
            time_to_first_token: registered(
                &registry,
                HistogramVec::new(time_to_first_token, &["model"]),
            ),
            inter_token_latency: registered(
                &registry,
                HistogramVec::new(inter_token_latency, &["model"]),
            ),
            rank_stage_seconds: registered(
                &registry,
                HistogramVec::new(rank_stage_seconds, &["model", "stage"]),
            ),
            tokens_per_second: registered(&registry, Gauge::with_opts(tokens_per_second)),
            registry,
            token_rate: Mutex::default(),
            started: Instant::now(),
        }
    }

    pub fn request_ended(&self, route: &str, status: u16, duration: Duration) {
        self.requests.with_label_values(&[route, &status.to_string()]).inc();
        self.request_seconds.with_label_values(&[route]).observe(duration.as_secs_f64());
    }

    pub fn first_token(&self, model: &str, wait: Duration) {
        self.time_to_first_token.with_label_values(&[model]).observe(wait.as_secs_f64());
    }

    /// Some tokens of one output that came together, `gap` after the ones before.
    pub fn next_tokens(&self, model: &str, tokens: usize, gap: Duration) {
        let seconds = self.inter_token_latency.with_label_values(&[model]);
        for _ in 0..tokens {
            seconds.observe(gap.as_secs_f64() / tokens as f64);
        }
    }

    /// A request to a recommender has ended.
    pub fn ranked(&self, model: &str, times: StageTimes) {
        let StageTimes { queued_us, fetched_us, computed_us } = times;
        let stages = [("queued", queued_us), ("fetched", fetched_us), ("computed", computed_us)];
        for (stage, us) in stages {
            let seconds = self.rank_stage_seconds.with_label_values(&[model, stage]);
            seconds.observe(us as f64 / 1e6);
        }
    }

    pub fn count_tokens(&self, tokens: usize) {
        let mut rate = self.token_rate.lock().expect(NO_PANICS);
        rate.add(self.started.elapsed(), tokens as u64);
    }

    /// All numbers as they are now.
    pub fn gather(&self) -> Vec<MetricFamily> {
        let rate = self.token_rate.lock().expect(NO_PANICS);
        self.tokens_per_second.set(rate.per_second(self.started.elapsed()));
        drop(rate);
        self.registry.gather()
    }
}

const NO_PANICS: &str = "no holder of this lock panics";

/// From half a millisecond to four minutes.
fn doubling_buckets(name: &str, help: &str) -> HistogramOpts {
    let bounds = prometheus::exponential_buckets(0.0005, 2.0, 20).expect("positive bounds");
    HistogramOpts::new(name, help).buckets(bounds)
}
