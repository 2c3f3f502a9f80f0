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
    prefill_tokens_per_second: Spread,
    /// New tokens a second, all requests together.
    decode_tokens_per_second: Spread,
    /// Of the best decode run.
    step_ms: f64,
    roofline_ms: Option<f64>,
    /// Where there is more than one request.
    mixed: Option<MixedRates>,
}

impl Row {
    pub fn new(
        batch: usize,
        prefill: Spread,
        decode: Spread,
        roofline_ms: Option<f64>,
        mixed: Option<MixedRates>,
    ) -> Self {
        Row {
            batch,
            prefill_tokens_per_second: prefill,
            decode_tokens_per_second: decode,
            step_ms: 1e3 * batch as f64 / decode.best,
            roofline_ms,
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
        writeln!(f, ", prompts of {prompt_tokens}, outputs of {new_tokens}")?;
        writeln!(f, "best run (median, least)\n")?;
        let header = ["batch", "prefill tok/s", "decode tok/s", "step", "roofline"];
        let [batch, prefill, decode, step, roofline] = header;
        write!(f, "{batch:>5}  {prefill:>28}  {decode:>28}  {step:>10}  {roofline:>16}")?;
        for row in &self.rows {
            write!(f, "\n{row}")?;
        }
        let mixed: Vec<_> = self.rows.iter().filter_map(|row| row.mixed.as_ref()).collect();
        if mixed.is_empty() {
            return Ok(());
        }
        let [decoding, waits] = ["decoding", "ITL p50, p99"];
        write!(f, "\n\nmixed: one request prefills new prompts while the others decode\n\n")?;
        write!(f, "{decoding:>5}  {prefill:>28}  {decode:>28}  {waits:>24}")?;
        for rates in mixed {
            let MixedRates {
                decoding,
                prefill_tokens_per_second,
                decode_tokens_per_second,
                itl_ms,
            } = rates;
            write!(
                f,
                "\n{decoding:>5}  {prefill_tokens_per_second:>28}  {decode_tokens_per_second:>28}"
            )?;
            let waits = format!("{:.2} ms, {:.2} ms", itl_ms.p50, itl_ms.p99);
            write!(f, "  {waits:>24}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row {
            batch,
            prefill_tokens_per_second,
            decode_tokens_per_second,
            step_ms,
            roofline_ms,
            ..
        } = self;
        write!(f, "{batch:>5}  {prefill_tokens_per_second:>28}  {decode_tokens_per_second:>28}")?;
        write!(f, "  {:>10}", format!("{step_ms:.2} ms"))?;
        let roofline = match roofline_ms {
            Some(roofline_ms) => {
                format!("{roofline_ms:.2} ms, {:.0}%", 100.0 * roofline_ms / step_ms)
            }
            None => "-".into(),
        };
        write!(f, "  {roofline:>16}")
    }
}
