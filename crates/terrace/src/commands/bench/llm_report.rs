//! What `terrace bench llm` found, for people and as JSON.

use std::fmt;

use serde::Serialize;
use terrace_engine::MemoryReport;

use super::mixed_run::MixedRates;
use super::spread::Spread;
use crate::memory_lines::memory_lines;

#[derive(Serialize)]
pub struct LlmReport {
    pub model: String,
    /// Their format, if they are.
    pub random_weights: Option<&'static str>,
    #[serde(flatten)]
    pub memory: MemoryReport,
    pub prompt_tokens: usize,
    pub new_tokens: usize,
    pub rows: Vec<Row>,
}

/// One batch size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    batch: usize,
    /// Prompt tokens a second, all requests together.
    read_per_second: Spread,
    /// New tokens a second, all requests together.
    written_per_second: Spread,
    /// Of the best writing run.
    step_ms: f64,
    floor_ms: Option<f64>,
    /// Where there is more than one request.
    mixed: Option<MixedRates>,
}

impl Row {
    pub fn new(
        batch: usize,
        read: Spread,
        written: Spread,
        floor_ms: Option<f64>,
        mixed: Option<MixedRates>,
    ) -> Self {
        Row {
            batch,
            read_per_second: read,
            written_per_second: written,
            step_ms: 1e3 * batch as f64 / written.best,
            floor_ms,
            mixed,
        }
    }
}

impl fmt::Display for LlmReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LlmReport { model, prompt_tokens, new_tokens, .. } = self;
        writeln!(f, "{}\n", memory_lines(&self.memory))?;
        write!(f, "{model}")?;
        if let Some(format) = self.random_weights {
            write!(f, " with random {format} weights")?;
        }
        writeln!(f, ", prompts of {prompt_tokens}, answers of {new_tokens}")?;
        writeln!(f, "best run (median, least)\n")?;
        let header = ["batch", "read tok/s", "written tok/s", "step", "floor"];
        let [batch, read, written, step, floor] = header;
        write!(f, "{batch:>5}  {read:>28}  {written:>28}  {step:>10}  {floor:>16}")?;
        for row in &self.rows {
            write!(f, "\n{row}")?;
        }
        let mixed: Vec<_> = self.rows.iter().filter_map(|row| row.mixed.as_ref()).collect();
        if mixed.is_empty() {
            return Ok(());
        }
        let [writers, waits] = ["write", "next token p50, p99"];
        write!(f, "\n\nmixed: one reads new prompts while the others write\n\n")?;
        write!(f, "{writers:>5}  {read:>28}  {written:>28}  {waits:>24}")?;
        for rates in mixed {
            let MixedRates { writers, read_per_second, written_per_second, next_token_ms } = rates;
            write!(f, "\n{writers:>5}  {read_per_second:>28}  {written_per_second:>28}")?;
            let waits = format!("{:.2} ms, {:.2} ms", next_token_ms.p50, next_token_ms.p99);
            write!(f, "  {waits:>24}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { batch, read_per_second, written_per_second, step_ms, floor_ms, .. } = self;
        write!(f, "{batch:>5}  {read_per_second:>28}  {written_per_second:>28}")?;
        write!(f, "  {:>10}", format!("{step_ms:.2} ms"))?;
        let floor = match floor_ms {
            Some(floor_ms) => format!("{floor_ms:.2} ms, {:.0}%", 100.0 * floor_ms / step_ms),
            None => "-".into(),
        };
        write!(f, "  {floor:>16}")
    }
}
