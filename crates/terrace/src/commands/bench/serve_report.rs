//! What `terrace bench serve` measured, for people and as JSON.

use std::fmt;

use serde::Serialize;
use terrace_engine::MemoryReport;

use super::load::Load;
use super::serve_times::ServeTimes;
use crate::commands::percentiles::Percentiles;
use crate::memory_lines::memory_lines;

#[derive(Serialize)]
pub struct ServeReport {
    pub model: String,
    #[serde(flatten)]
    pub server: MeasuredServer,
    pub prompt_tokens: usize,
    pub new_tokens: usize,
    pub seed: u64,
    pub loads: Vec<LoadReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredServer {
    Url(String),
    #[serde(untagged)]
    InThisProcess {
        /// Their format, if they are.
        random_weights: Option<&'static str>,
        #[serde(flatten)]
        memory: MemoryReport,
    },
}

/// One load.
#[derive(Serialize)]
pub struct LoadReport {
    pub load: Load,
    pub requests: usize,
    pub failed: usize,
    pub first_failure: Option<String>,
    #[serde(flatten)]
    pub times: ServeTimes,
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServeReport { model, server, prompt_tokens, new_tokens, loads, .. } = self;
        if let MeasuredServer::InThisProcess { memory, .. } = server {
            writeln!(f, "{}\n", memory_lines(memory))?;
        }
        write!(f, "{model}")?;
        match server {
            MeasuredServer::Url(url) => write!(f, " at {url}")?,
            MeasuredServer::InThisProcess { random_weights: Some(format), .. } => {
                write!(f, " with random {format} weights")?;
            }
            MeasuredServer::InThisProcess { .. } => {}
        }
        writeln!(f, ", prompts of {prompt_tokens}, outputs of {new_tokens}\n")?;
        let [first, next] = ["TTFT ms", "ITL ms"];
        writeln!(f, "{:50}  {first:^26}  {next:^23}", "")?;
        write!(
            f,
            "{:<12} {:>8} {:>6} {:>6} {:>7} ",
            "load", "requests", "failed", "req/s", "tok/s"
        )?;
        write!(f, "{:>7}  {:>8} {:>8} {:>8}", "decode", "p50", "p90", "p99")?;
        writeln!(f, "  {:>7} {:>7} {:>7}", "p50", "p90", "p99")?;
        for load in loads {
            writeln!(f, "{load}")?;
        }
        for load in loads {
            write!(f, "\n{}, TTFT\n{}", load.load, load.times.ttft_bars)?;
            write!(f, "\n{}, ITL\n{}", load.load, load.times.itl_bars)?;
        }
        Ok(())
    }
}

/// A line of the table, and one more if requests failed.
impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadReport { load, requests, failed, first_failure, times } = self;
        let ServeTimes { requests_per_second, tokens_per_second, decode_tokens_per_second, .. } =
            times;
        let written = decode_tokens_per_second.map_or("-".into(), |rate| format!("{rate:.1}"));
        write!(f, "{load:<12} {requests:>8} {failed:>6} {requests_per_second:>6.2} ")?;
        write!(f, "{tokens_per_second:>7.1} {written:>7}")?;
        let Percentiles { p50, p90, p99, .. } = times.ttft_ms;
        write!(f, "  {p50:>8.1} {p90:>8.1} {p99:>8.1}")?;
        match times.itl_ms {
            Some(Percentiles { p50, p90, p99, .. }) => {
                write!(f, "  {p50:>7.2} {p90:>7.2} {p99:>7.2}")?;
            }
            None => write!(f, "  {0:>7} {0:>7} {0:>7}", "-")?,
        }
        match first_failure {
            Some(failure) => write!(f, "\n  failed first: {failure}"),
            None => Ok(()),
        }
    }
}
