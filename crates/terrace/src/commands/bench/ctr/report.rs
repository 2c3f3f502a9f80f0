//! What was measured, as a table or as JSON.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct CtrReport {
    pub device: String,
    pub table_rows: usize,
    pub slots: usize,
    pub dim: usize,
    pub dense: usize,
    pub bottom: Vec<usize>,
    pub top: Vec<usize>,
    pub rows: Vec<BatchRow>,
}

#[derive(Debug, Serialize)]
pub struct BatchRow {
    pub precision: &'static str,
    pub batch: usize,
    /// Of an instance.
    pub best_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Of the best run, until rows and features were together.
    pub input_us: f64,
    /// Through the model's queue.
    pub served_p50_us: f64,
    pub served_p99_us: f64,
    pub roofline_us: Option<f64>,
    /// The largest of probabilities from those in f64.
    pub difference: f64,
}

impl fmt::Display for CtrReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CtrReport { device, table_rows, slots, dim, dense, bottom, top, .. } = self;
        writeln!(
            f,
            "{device}: DLRM, {slots} keys of {table_rows} rows of {dim} numbers, {dense} dense \
             features, layers {} and {}; microseconds",
            sizes(bottom),
            sizes(top)
        )?;
        writeln!(
            f,
            "{:>6} {:<6} {:>10} {:>10} {:>10} {:>10} {:>11} {:>10} {:>11}",
            "batch", "type", "p50", "p99", "best", "input", "served p50", "roofline", "difference"
        )?;
        for row in &self.rows {
            let roofline = row.roofline_us.map_or("-".to_owned(), |us| format!("{us:.1}"));
            writeln!(
                f,
                "{:>6} {:<6} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>11.1} {:>10} {:>11.1e}",
                row.batch,
                row.precision,
                row.p50_us,
                row.p99_us,
                row.best_us,
                row.input_us,
                row.served_p50_us,
                roofline,
                row.difference
            )?;
        }
        Ok(())
    }
}

fn sizes(sizes: &[usize]) -> String {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    sizes.join("-")
}
