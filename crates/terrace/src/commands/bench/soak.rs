//! Mixed traffic for a while, and what it leaves behind: nothing, if all is well.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use terrace_engine::text::LanguageModel;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::completion_event::CompletionEvent;
use super::event_stream::EventStream;
use super::loopback_server::LoopbackServer;
use super::service::Service;
use super::soak_traffic::{Errand, MixedTraffic, TrafficLimits};
use crate::byte_size::ByteSize;

/// How long the engine may take to end what clients have left.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the time, to get past what is set up with the first requests of each kind.
const WARM_UP_SHARE: u32 = 5;

#[derive(Clone, Copy, Debug)]
pub struct SoakPlan {
    pub seed: u64,
    pub time: Duration,
    pub streams: usize,
    pub prompt_tokens: usize,
    pub new_tokens: usize,
    pub vocab: usize,
}

#[derive(Debug, Serialize)]
pub struct SoakReport {
    seed: u64,
    #[serde(flatten)]
    counts: Counts,
    /// Sequences that run or wait although nobody asks any more.
    unfinished: usize,
    pages_total: usize,
    pages_free: usize,
    preemptions: u64,
    /// On a GPU, when nothing runs: after the warm-up, and at the end.
    free_device_bytes_before: Option<usize>,
    free_device_bytes_after: Option<usize>,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    /// Requests that were read to their end.
    finished: usize,
    /// Requests that were cancelled.
    cancelled: usize,
    /// New tokens of those that were finished.
    tokens: usize,
    /// Of each client that met one; it asks no more then.
    failures: Vec<String>,
}

pub async fn run(server: &LoopbackServer, plan: &SoakPlan) -> Result<SoakReport> {
    let service = server.service();
    let warm_up = plan.time / WARM_UP_SHARE;
    let mut counts = traffic(&service, plan, plan.seed.wrapping_add(1), warm_up).await?;
    wait_until_idle(&server.model).await;
    let free_device_bytes_before = server.model.free_device_bytes();
    if counts.failures.is_empty() {
        counts.add(traffic(&service, plan, plan.seed, plan.time - warm_up).await?);
        wait_until_idle(&server.model).await;
    }
    let stats = server.model.stats();
    Ok(SoakReport {
        seed: plan.seed,
        counts,
        unfinished: stats.running + stats.waiting,
        pages_total: stats.pages_total,
        pages_free: stats.pages_free,
        preemptions: stats.preemptions,
        free_device_bytes_before,
        free_device_bytes_after: server.model.free_device_bytes(),
    })
}

async fn traffic(service: &Service, plan: &SoakPlan, seed: u64, time: Duration) -> Result<Counts> {
    let limits = TrafficLimits {
        prompt_tokens: plan.prompt_tokens,
        new_tokens: plan.new_tokens,
        choices: plan.streams.min(4),
        vocab: plan.vocab,
    };
    let until = Instant::now() + time;
    let mut clients = JoinSet::new();
    for client in 0..plan.streams {
        clients.spawn(ask_until(service.clone(), MixedTraffic::new(seed, client, limits), until));
    }
    let mut counts = Counts::default();
    while let Some(client) = clients.join_next().await {
        counts.add(client.context("a client failed")?);
    }
    Ok(counts)
}

async fn ask_until(service: Service, mut traffic: MixedTraffic, until: Instant) -> Counts {
    let mut counts = Counts::default();
    // Once at least, however short the time.
    loop {
        match ask(&service, traffic.next()).await {
            Ok(Some(tokens)) => {
                counts.finished += 1;
                counts.tokens += tokens;
            }
            Ok(None) => counts.cancelled += 1,
            Err(error) => counts.failures.push(format!("{error:#}")),
        }
        if !counts.failures.is_empty() || until <= Instant::now() {
            return counts;
        }
    }
}

/// The output's tokens, or `None` when it was cancelled.
async fn ask(service: &Service, errand: Errand) -> Result<Option<usize>> {
    let mut stream =
        EventStream::post(service.address, &service.completions_path(), errand.body.to_string())
            .await?;
    let (mut events, mut tokens) = (0, 0);
    while let Some(data) = stream.next().await? {
        if errand.leave_after.is_some_and(|limit| limit <= events) {
            return Ok(None);
        }
        events += 1;
        match CompletionEvent::parse(&data)? {
            CompletionEvent::Usage { completion_tokens } => tokens = completion_tokens,
            CompletionEvent::Done => return Ok(Some(tokens)),
            CompletionEvent::Text | CompletionEvent::Empty => {}
        }
    }
    bail!("a stream ended without [DONE]")
}

/// Outputs that were left are ended when the server sees that their clients are gone.
async fn wait_until_idle(model: &LanguageModel) {
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        let stats = model.stats();
        if stats.running + stats.waiting == 0 {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.finished += more.finished;
        self.cancelled += more.cancelled;
        self.tokens += more.tokens;
        self.failures.extend(more.failures);
    }
}

impl SoakReport {
    /// An error when something failed or was left behind.
    pub fn verdict(&self) -> Result<()> {
        if let Some(first) = self.counts.failures.first() {
            bail!("{} clients met a failure, the first: {first}", self.counts.failures.len());
        }
        if self.unfinished > 0 {
            bail!("{} sequences are unfinished though nobody asks any more", self.unfinished);
        }
        if self.pages_free != self.pages_total {
            let lost = self.pages_total - self.pages_free;
            bail!("{lost} of {} pages are not free though nothing runs", self.pages_total);
        }
        match (self.free_device_bytes_before, self.free_device_bytes_after) {
            (Some(before), Some(after)) if after < before => bail!(
                "{} of device memory are gone, unless another program took them",
                ByteSize(before - after)
            ),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { finished, cancelled, tokens, failures } = &self.counts;
        writeln!(
            f,
            "requests       {finished} finished with {tokens} tokens, {cancelled} cancelled"
        )?;
        writeln!(f, "failures       {} (seed {})", failures.len(), self.seed)?;
        writeln!(f, "preemptions    {}", self.preemptions)?;
        let pages = if self.pages_free == self.pages_total { "all free" } else { "NOT all free" };
        write!(f, "pages          {} of {} free: {pages}", self.pages_free, self.pages_total)?;
        match (self.free_device_bytes_before, self.free_device_bytes_after) {
            (Some(before), Some(after)) => {
                write!(f, "\ndevice memory  {before} bytes free before, {after} after")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spoil: impl FnOnce(&mut SoakReport), want: &str) {
        let mut report = SoakReport {
            seed: 1,
            counts: Counts { finished: 5, cancelled: 2, tokens: 90, failures: Vec::new() },
            unfinished: 0,
            pages_total: 40,
            pages_free: 40,
            preemptions: 3,
            free_device_bytes_before: Some(5000),
            free_device_bytes_after: Some(5000),
        };
        report.verdict().expect("nothing is wrong yet");
        spoil(&mut report);
        assert_eq!(report.verdict().unwrap_err().to_string(), want);
    }

    #[test]
    fn whatever_is_left_behind_is_a_fault() {
        check(
            |report| report.counts.failures.push("status 500".into()),
            "1 clients met a failure, the first: status 500",
        );
        check(
            |report| report.unfinished = 2,
            "2 sequences are unfinished though nobody asks any more",
        );
        check(|report| report.pages_free = 39, "1 of 40 pages are not free though nothing runs");
        check(
            |report| report.free_device_bytes_after = Some(4000),
            "1000 B of device memory are gone, unless another program took them",
        );
    }
}
