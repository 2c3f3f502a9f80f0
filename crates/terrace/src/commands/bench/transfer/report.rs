//! What `terrace bench transfer` found, for people and as JSON.

use std::fmt;

use serde::Serialize;

use crate::byte_size::ByteSize;

#[derive(Serialize)]
pub struct TransferReport {
    pub device: String,
    pub page_bytes: usize,
    pub pages: usize,
    pub layers: usize,
    pub pinned_gb_per_second: f64,
    pub moves: Vec<MoveRow>,
    pub both: Vec<BothRow>,
    pub beside: Vec<BesideRow>,
}

/// One direction by itself.
#[derive(Serialize)]
pub struct MoveRow {
    pub way: String,
    pub direction: &'static str,
    pub cuts: &'static str,
    pub gb_per_second: f64,
    pub first_part_ms: Option<f32>,
    pub start_ms: f64,
}

/// Both directions at once, graded.
#[derive(Serialize)]
pub struct BothRow {
    pub way: String,
    pub in_gb_per_second: f64,
    pub out_gb_per_second: f64,
}

/// Kernels while pages move.
#[derive(Serialize)]
pub struct BesideRow {
    pub compute: &'static str,
    pub way: String,
    pub direction: &'static str,
    pub cuts: &'static str,
    /// Speed of the kernels, of that by themselves.
    pub compute_share: f64,
    pub gb_per_second: f64,
}

impl fmt::Display for TransferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TransferReport { device, pages, layers, pinned_gb_per_second, .. } = self;
        let page = ByteSize(self.page_bytes);
        let all = ByteSize(self.page_bytes.saturating_mul(*pages));
        writeln!(f, "{device}: {pages} pages of {page} with {layers} layers, {all} a transfer")?;
        writeln!(f, "pinned at {pinned_gb_per_second:.1} GB/s; best run")?;
        let [way, cuts] = ["way", "parts"];
        write!(f, "\n{way:<20}{:<11}{cuts:<10}{:>12}", "direction", "speed")?;
        write!(f, "{:>14}{:>14}\n{:-<81}", "first part", "started in", "")?;
        for row in &self.moves {
            let first = row.first_part_ms.map_or("-".into(), |ms| format!("{ms:.2} ms"));
            write!(f, "\n{:<20}{:<11}{:<10}", row.way, row.direction, row.cuts)?;
            write!(f, "{:>7.1} GB/s{first:>14}{:>11.2} ms", row.gb_per_second, row.start_ms)?;
        }
        write!(f, "\n\nboth at once, graded{:>17}{:>16}\n{:-<53}", "to device", "to host", "")?;
        for row in &self.both {
            let (ins, outs) = (row.in_gb_per_second, row.out_gb_per_second);
            write!(f, "\n{:<20}{ins:>12.1} GB/s{outs:>11.1} GB/s", row.way)?;
        }
        for rows in self.beside.chunk_by(|a, b| a.compute == b.compute) {
            write!(f, "\n\nbeside {:<23}{cuts:<10}", rows[0].compute)?;
            write!(f, "{:>15}{:>14}\n{:-<69}", "kernels", "pages", "")?;
            for row in rows {
                write!(f, "\n{:<20}{:<10}{:<10}", row.way, row.direction, row.cuts)?;
                write!(f, "{:>14.1}%{:>9.1} GB/s", 100.0 * row.compute_share, row.gb_per_second)?;
            }
        }
        Ok(())
    }
}
