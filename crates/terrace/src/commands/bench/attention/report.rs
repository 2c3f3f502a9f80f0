//! What `terrace bench attention` found, for people and as JSON.

use std::fmt;

use serde::Serialize;

use super::step_shape::StepShape;
use super::timing::Timing;

#[derive(Serialize)]
pub struct AttentionReport {
    device: String,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    keys: usize,
    page_slots: usize,
    measurements: Vec<Measurement>,
}

/// One op on one device.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    step: &'static str,
    format: &'static str,
    seqs: usize,
    /// New rows of each sequence.
    rows: usize,
    weights: bool,
    ms: f64,
    median_ms: f64,
    gb_per_second: f64,
    tflop_per_second: f64,
}

impl Measurement {
    pub fn new(shape: &StepShape, format: &'static str, timing: Timing) -> Self {
        let seconds = timing.best_ms * 1e-3;
        Measurement {
            step: shape.name(),
            format,
            seqs: shape.seqs,
            rows: shape.rows,
            weights: shape.weights,
            ms: timing.best_ms,
            median_ms: timing.median_ms,
            gb_per_second: shape.bytes() as f64 / seconds * 1e-9,
            tflop_per_second: shape.operations() / seconds * 1e-12,
        }
    }

    /// Time, and the rate that bounds the step: of memory, or of products.
    fn time_and_rate(&self) -> String {
        let rate = match (self.rows, self.tflop_per_second) {
            (1, _) => format!("{:.1} GB/s", self.gb_per_second),
            (_, slow) if slow < 1.0 => format!("{:.1} GFLOP/s", 1e3 * slow),
            (_, fast) => format!("{fast:.1} TFLOP/s"),
        };
        format!("{:.3} ms  {rate:>14}", self.ms)
    }

    fn is_of_step(&self, other: &Self) -> bool {
        (self.seqs, self.rows) == (other.seqs, other.rows)
    }
}

impl AttentionReport {
    pub fn new(device: String, shape: &StepShape, measurements: Vec<Measurement>) -> Self {
        let StepShape { heads, kv_heads, head_dim, keys, page_slots, .. } = *shape;
        AttentionReport { device, heads, kv_heads, head_dim, keys, page_slots, measurements }
    }
}

impl fmt::Display for AttentionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionReport { device, heads, kv_heads, head_dim, keys, page_slots, .. } = self;
        writeln!(f, "{device}: {heads} heads, {kv_heads} for keys and values, {head_dim} numbers")?;
        write!(f, "{keys} slots a sequence in pages of {page_slots}; best run")?;
        let mut before: Option<&Measurement> = None;
        for pair in self.measurements.chunks_exact(2) {
            let [plain, weighted] = [&pair[0], &pair[1]];
            let first = match before {
                Some(first) if first.is_of_step(plain) => first,
                _ => {
                    write_heading(f, plain)?;
                    before = Some(plain);
                    plain
                }
            };
            let (cost, gain) = (weighted.ms / plain.ms, first.ms / plain.ms);
            let [without, with] = [plain, weighted].map(Measurement::time_and_rate);
            write!(f, "\n{:<18}{without:>28}{with:>28}{cost:>7.2}x", plain.format)?;
            write!(f, "{gain:>7.2}x")?;
        }
        Ok(())
    }
}

fn write_heading(f: &mut fmt::Formatter<'_>, first: &Measurement) -> fmt::Result {
    let Measurement { step, seqs, rows, .. } = first;
    write!(f, "\n\n{step}: {seqs} x {rows} rows")?;
    let columns = ["format", "without weights", "with weights", "cost", "gain"];
    let [format, without, with, cost, gain] = columns;
    write!(f, "\n{format:<18}{without:>28}{with:>28}{cost:>8}{gain:>8}\n{:-<90}", "")
}
