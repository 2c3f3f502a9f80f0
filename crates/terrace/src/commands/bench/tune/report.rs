//! What `terrace bench tune` found, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::batch_shape::BatchShape;
use crate::commands::bench::spread::Spread;

/// One step.
#[derive(Clone, Debug, Serialize)]
pub struct StepRow {
    pub loss: f64,
    pub step_s: f64,
    pub forward_s: f64,
    pub head_s: f64,
    pub backward_s: f64,
    pub optimiser_s: f64,
    pub ops_s: BTreeMap<&'static str, f64>,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub model: String,
    pub device: String,
    pub precision: &'static str,
    pub cache: String,
    /// Slots of each layer, or of all.
    pub cache_lengths: Vec<usize>,
    /// Sequences, and tokens of each.
    pub shape: BatchShape,
    /// Numbers that are trained.
    pub trained: usize,
    /// Of branches; `None` where all weights are trained.
    pub lora_rank: Option<usize>,
    /// Of a step.
    pub flops: f64,
    pub roofline_s: Option<f64>,
    /// Taken of a GPU, at most.
    pub device_bytes: Option<usize>,
    pub steps: Vec<StepRow>,
}

#[derive(Debug, Serialize)]
pub struct TuneReport {
    #[serde(flatten)]
    measured: Measured,
    tokens_per_second: Spread,
    /// The number of the best step.
    best: usize,
}

impl TuneReport {
    /// There is at least one step.
    pub fn new(measured: Measured) -> Self {
        let [seqs, tokens] = measured.shape;
        let rate = |step: &StepRow| (seqs * tokens) as f64 / step.step_s;
        let rates: Vec<f64> = measured.steps.iter().map(rate).collect();
        let times = measured.steps.iter().enumerate();
        let best = times.min_by(|(_, a), (_, b)| a.step_s.total_cmp(&b.step_s));
        let best = best.map_or(0, |(number, _)| number);
        TuneReport { tokens_per_second: Spread::of(rates), best, measured }
    }
}

impl fmt::Display for TuneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { model, device, precision, cache, cache_lengths, .. } = &self.measured;
        let Measured { shape: [seqs, tokens], trained, lora_rank, .. } = self.measured;
        let lengths: Vec<String> = cache_lengths.iter().map(usize::to_string).collect();
        let branches = match lora_rank {
            Some(rank) => format!("LoRA of rank {rank} on queries and values"),
            None => "all weights".to_owned(),
        };
        writeln!(f, "{model} on {device}, {precision}, {cache} of {} slots", lengths.join(", "))?;
        writeln!(f, "{seqs} x {tokens} tokens a step, {branches}: {trained} trained numbers")?;
        if let Some(bytes) = self.measured.device_bytes {
            writeln!(f, "{:.1} GiB of the GPU", bytes as f64 / f64::from(1 << 30))?;
        }
        writeln!(f, "best step (median, least)\n")?;
        let header = ["tok/s", "step", "forward", "head", "backward", "optimiser", "roofline"];
        let [rate, step, forward, head, backward, optimiser, roofline] = header;
        writeln!(
            f,
            "{rate:>24}  {step:>8}  {forward:>8}  {head:>8}  {backward:>8}  {optimiser:>9}  \
             {roofline:>14}"
        )?;
        let best = &self.measured.steps[self.best];
        let StepRow { step_s, forward_s, head_s, backward_s, optimiser_s, .. } = best;
        let roofline = match self.measured.roofline_s {
            Some(roofline_s) => format!("{roofline_s:.2} s, {:.0}%", 100.0 * roofline_s / step_s),
            None => "-".into(),
        };
        writeln!(
            f,
            "{:>24}  {step_s:>6.2} s  {forward_s:>6.2} s  {head_s:>6.2} s  {backward_s:>6.2} s  \
             {optimiser_s:>7.2} s  {roofline:>14}",
            self.tokens_per_second
        )?;
        self.write_ops(f)
    }
}

impl TuneReport {
    /// Where the time of the best step went, most first.
    fn write_ops(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let best = &self.measured.steps[self.best];
        let mut ops: Vec<(&str, f64)> = best.ops_s.iter().map(|(op, time)| (*op, *time)).collect();
        let timed: f64 = ops.iter().map(|(_, time)| time).sum();
        ops.push(("between ops", best.step_s - timed));
        ops.sort_by(|a, b| b.1.total_cmp(&a.1));
        write!(f, "\n{:<24}  {:>9}  {:>6}", "op", "time", "share")?;
        for (op, time) in ops {
            let share = 100.0 * time / best.step_s;
            write!(f, "\n{op:<24}  {:>6.1} ms  {share:>5.1}%", 1e3 * time)?;
        }
        Ok(())
    }
}
