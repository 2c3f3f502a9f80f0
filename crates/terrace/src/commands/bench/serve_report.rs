//! What `terrace bench serve` measured, for people and as JSON.

use std::fmt;

use serde::Serialize;
use terrace_engine::MemoryReport;

use super::serve_times::ServeTimes;
use crate::memory_lines::memory_lines;

#[derive(Serialize)]
pub struct ServeReport {
    pub model: String,
    /// Their format, if they are.
    pub random_weights: Option<&'static str>,
    #[serde(flatten)]
    pub memory: MemoryReport,
    pub streams: usize,
    pub prompt_tokens: usize,
    pub new_tokens: usize,
    #[serde(flatten)]
    pub times: ServeTimes,
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServeReport { model, streams, prompt_tokens, new_tokens, times, .. } = self;
        writeln!(f, "{}\n", memory_lines(&self.memory))?;
        write!(f, "{model}")?;
        if let Some(format) = self.random_weights {
            write!(f, " with random {format} weights")?;
        }
        writeln!(f, ", {streams} streams, prompts of {prompt_tokens}, answers of {new_tokens}\n")?;
        match times.written_per_second {
            Some(rate) => writeln!(f, "written tok/s  {rate:.1}")?,
            None => writeln!(f, "written tok/s  - (a stream ended before another began)")?,
        }
        writeln!(
            f,
            "first token    {:.1} ms median, {:.1} ms largest",
            times.first_token_ms_median, times.first_token_ms_largest
        )?;
        writeln!(
            f,
            "next token     {:.2} ms median, {:.2} ms p99",
            times.next_token_ms_median, times.next_token_ms_p99
        )?;
        write!(f, "counted        {} tokens in {} events", times.tokens, times.events)
    }
}
