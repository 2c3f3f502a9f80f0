//! What `terrace bench tiers` found, for people and as JSON.

use std::fmt;

use serde::Serialize;

use crate::byte_size::ByteSize;
use crate::commands::bench::spread::Spread;
use crate::commands::percentiles::Percentiles;

#[derive(Serialize)]
pub struct TiersReport {
    pub prefix_tokens: usize,
    pub prefixes: Vec<PrefixRow>,
    pub decoding: Option<DecodeRow>,
}

/// Times to first token in milliseconds, of one number of new tokens.
#[derive(Serialize)]
pub struct PrefixRow {
    pub new_tokens: usize,
    prefix_bytes: usize,
    computed: Times,
    device: Times,
    host: Times,
    disk: Option<Times>,
}

/// The best of several runs, and the one in the middle.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    best_ms: f64,
    median_ms: f64,
}

/// Requests that decode, alone and while pages move.
#[derive(Serialize)]
pub struct DecodeRow {
    pub decoding: usize,
    /// New tokens a second, all requests together.
    pub alone: Spread,
    pub beside: Spread,
    pub alone_itl_ms: Percentiles,
    pub beside_itl_ms: Percentiles,
    pub out_gb_per_second: Spread,
    pub in_gb_per_second: Spread,
}

impl PrefixRow {
    /// Times of at least one run each.
    pub fn new(
        new_tokens: usize,
        prefix_bytes: usize,
        computed: Vec<f64>,
        device: Vec<f64>,
        host: Vec<f64>,
    ) -> Self {
        let [computed, device, host] = [computed, device, host].map(Times::of);
        PrefixRow { new_tokens, prefix_bytes, computed, device, host, disk: None }
    }

    pub fn set_disk(&mut self, times: Vec<f64>) {
        self.disk = Some(Times::of(times));
    }
}

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Times { best_ms: times[0], median_ms: times[times.len() / 2] }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} ({:.1})", self.best_ms, self.median_ms))
    }
}

impl fmt::Display for TiersReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix_bytes = self.prefixes.first().map_or(0, |row| row.prefix_bytes);
        let (tokens, bytes) = (self.prefix_tokens, ByteSize(prefix_bytes));
        writeln!(f, "TTFT in ms, prefix of {tokens} tokens ({bytes}); best run (median)\n")?;
        let [new, computed, device, host, disk] =
            ["new tokens", "computed", "device", "host", "disk"];
        write!(f, "{new:>10}  {computed:>18}  {device:>18}  {host:>18}  {disk:>18}")?;
        for row in &self.prefixes {
            let PrefixRow { new_tokens, computed, device, host, disk, .. } = row;
            let disk = disk.map_or_else(|| "-".to_owned(), |disk| disk.to_string());
            write!(f, "\n{new_tokens:>10}  {computed:>18}  {device:>18}  {host:>18}  {disk:>18}")?;
        }
        let Some(row) = &self.decoding else { return Ok(()) };
        let DecodeRow { decoding, out_gb_per_second, in_gb_per_second, .. } = row;
        let [rate, itl] = ["decode tok/s", "ITL p50, p99"];
        write!(f, "\n\n{decoding} requests decode; best run (median, least)\n\n")?;
        write!(f, "{:>12}  {rate:>30}  {itl:>18}", "")?;
        for (name, rate, itl) in
            [("alone", row.alone, row.alone_itl_ms), ("pages move", row.beside, row.beside_itl_ms)]
        {
            let itl = format!("{:.2}, {:.2} ms", itl.p50, itl.p99);
            write!(f, "\n{name:>12}  {rate:>30}  {itl:>18}")?;
        }
        let share = 100.0 * row.beside.median / row.alone.median;
        let p99 = row.beside_itl_ms.p99 / row.alone_itl_ms.p99;
        write!(f, "\n\n{share:.1}% of the throughput, {p99:.2} times the p99; moved out ")?;
        write!(f, "{out_gb_per_second} GB/s, in {in_gb_per_second} GB/s")
    }
}
