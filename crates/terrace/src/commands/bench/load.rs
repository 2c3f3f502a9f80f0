//! Requests sent to a service, and what came back.
//!
//! In a closed loop each stream asks again when its output has ended, so a slow service gets fewer
//! requests. In an open loop requests come at random times whatever the service does, as from
//! independent clients, and pile up when it is too slow.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_engine::TokenId;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::random_prompts::RandomPrompts;
use super::service::Service;
use super::streamed_output::StreamedOutput;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    Streams(usize),
    RequestsPerSecond(f64),
}

#[derive(Default)]
pub struct LoadResult {
    pub outputs: Vec<StreamedOutput>,
    /// What was said about each request that has no output.
    pub failures: Vec<String>,
}

/// Requests of one kind: each has its own prompt, all want as many tokens.
pub struct Requests {
    pub prompts: Vec<Vec<TokenId>>,
    pub new_tokens: usize,
}

impl Load {
    /// Sends all requests and waits for the last output. The seed is that of random times.
    pub async fn send(self, service: &Service, requests: Requests, seed: u64) -> LoadResult {
        let service = Arc::new(service.clone());
        let start = Instant::now();
        match self {
            Load::Streams(streams) => closed_loop(&service, requests, streams, start).await,
            Load::RequestsPerSecond(rate) => {
                let times = arrival_times(requests.prompts.len(), rate, seed);
                open_loop(&service, requests, times, start).await
            }
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Streams(streams) => f.pad(&format!("{streams} streams")),
            Load::RequestsPerSecond(rate) => f.pad(&format!("{rate}/s")),
        }
    }
}

async fn closed_loop(
    service: &Arc<Service>,
    requests: Requests,
    streams: usize,
    start: Instant,
) -> LoadResult {
    let Requests { prompts, new_tokens } = requests;
    let prompts = Arc::new(Mutex::new(prompts));
    let mut clients = JoinSet::new();
    for _ in 0..streams {
        let (service, prompts) = (Arc::clone(service), Arc::clone(&prompts));
        clients.spawn(async move {
            let mut result = LoadResult::default();
            let next = || prompts.lock().expect("no client panics while it holds it").pop();
            while let Some(prompt) = next() {
                result.add(StreamedOutput::get(&service, prompt, new_tokens, start).await);
            }
            result
        });
    }
    LoadResult::of_all(clients).await
}

async fn open_loop(
    service: &Arc<Service>,
    requests: Requests,
    times: Vec<Duration>,
    start: Instant,
) -> LoadResult {
    let Requests { prompts, new_tokens } = requests;
    let mut clients = JoinSet::new();
    for (prompt, time) in prompts.into_iter().zip(times) {
        let service = Arc::clone(service);
        clients.spawn(async move {
            sleep(time.saturating_sub(start.elapsed())).await;
            let mut result = LoadResult::default();
            result.add(StreamedOutput::get(&service, prompt, new_tokens, start).await);
            result
        });
    }
    LoadResult::of_all(clients).await
}

/// A Poisson process: the gaps between requests are independent and exponential.
pub fn arrival_times(requests: usize, per_second: f64, seed: u64) -> Vec<Duration> {
    let mut random = RandomPrompts::new(seed, 1);
    let mut time = 0.0;
    let next = |_| {
        let part = (random.below(1 << 30) as f64 + 1.0) / (1u64 << 30) as f64;
        time -= part.ln() / per_second;
        Duration::from_secs_f64(time)
    };
    (0..requests).map(next).collect()
}

impl LoadResult {
    async fn of_all(mut clients: JoinSet<LoadResult>) -> Self {
        let mut all = LoadResult::default();
        while let Some(client) = clients.join_next().await {
            let LoadResult { outputs, failures } = client.expect("a client does not panic");
            all.outputs.extend(outputs);
            all.failures.extend(failures);
        }
        all
    }

    fn add(&mut self, output: anyhow::Result<StreamedOutput>) {
        match output {
            Ok(output) => self.outputs.push(output),
            Err(error) => self.failures.push(format!("{error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_times_come_at_the_rate_and_are_as_irregular_as_chance() {
        let times = arrival_times(20_000, 8.0, 5);
        assert_eq!(times, arrival_times(20_000, 8.0, 5));
        assert_ne!(times, arrival_times(20_000, 8.0, 6));
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.125).abs() < 0.004, "{mean}");
        // Of exponential gaps, a part of 1/e is longer than the mean.
        let long = gaps.iter().filter(|&&gap| gap > mean).count() as f64 / gaps.len() as f64;
        assert!((long - 0.368).abs() < 0.015, "{long}");
    }
}
