//! What `terrace bench ps` found, for people and as JSON.

use std::fmt;

use serde::Serialize;

use super::lookups::Lookups;
use crate::commands::bench::spread::Spread;

#[derive(Serialize)]
pub struct PsReport {
    pub levels: Vec<LevelReport>,
    pub gpu: Option<GpuReport>,
    /// Levels that were not measured, each with the reason.
    pub left_out: Vec<String>,
}

#[derive(Serialize)]
pub struct LevelReport {
    pub heading: String,
    pub rows: Vec<LevelRow>,
}

#[derive(Serialize)]
pub struct LevelRow {
    what: &'static str,
    /// How keys are drawn.
    keys: String,
    batch: usize,
    threads: usize,
    rows_per_second: Spread,
    gb_per_second: f64,
    beside: Option<Beside>,
    /// Of what stands beside it, how fast it is.
    share: Option<f64>,
}

/// What bounds a level.
#[derive(Serialize)]
pub struct Beside {
    pub name: &'static str,
    pub rows_per_second: Spread,
}

#[derive(Serialize)]
pub struct GpuReport {
    pub device: String,
    pub rows: usize,
    pub dim: usize,
    /// Read and written, of copies within the device's memory.
    pub copy_gb_per_second: f64,
    /// From pinned host memory.
    pub bus_gb_per_second: f64,
    pub measurements: Vec<GpuRow>,
}

#[derive(Serialize)]
pub struct GpuRow {
    pub what: String,
    pub keys: usize,
    /// Of one call.
    pub us: f64,
    pub median_us: f64,
    /// What the bytes that must move take.
    pub limit_us: f64,
}

impl LevelRow {
    pub fn load(rows_per_second: f64, dim: usize) -> Self {
        let rate = Spread::of(vec![rows_per_second]);
        Self::new("load", "ascending".to_owned(), (0, 1), rate, dim)
    }

    pub fn get(lookups: &Lookups<'_>, rate: Spread, beside: Beside) -> Self {
        let share = rate.best / beside.rows_per_second.best;
        let row = Self::of_lookups("get", lookups, rate);
        LevelRow { beside: Some(beside), share: Some(share), ..row }
    }

    pub fn update(lookups: &Lookups<'_>, rate: Spread) -> Self {
        Self::of_lookups("update", lookups, rate)
    }

    fn of_lookups(what: &'static str, lookups: &Lookups<'_>, rate: Spread) -> Self {
        let size = (lookups.batch, lookups.threads());
        Self::new(what, lookups.draw.to_string(), size, rate, lookups.dim)
    }

    fn new(
        what: &'static str,
        keys: String,
        (batch, threads): (usize, usize),
        rows_per_second: Spread,
        dim: usize,
    ) -> Self {
        let gb_per_second = rows_per_second.best * (dim * size_of::<f32>()) as f64 * 1e-9;
        let (beside, share) = (None, None);
        LevelRow { what, keys, batch, threads, rows_per_second, gb_per_second, beside, share }
    }

    /// As many threads of its own, inside each look-up.
    pub fn with_threads(self, threads: usize) -> Self {
        LevelRow { threads, ..self }
    }
}

impl fmt::Display for PsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        let mut between = |f: &mut fmt::Formatter<'_>| {
            if std::mem::replace(&mut is_first, false) { Ok(()) } else { f.write_str("\n\n") }
        };
        for level in &self.levels {
            between(f)?;
            write!(f, "{level}")?;
        }
        if let Some(gpu) = &self.gpu {
            between(f)?;
            write!(f, "{gpu}")?;
        }
        for reason in &self.left_out {
            between(f)?;
            write!(f, "left out: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LevelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [what, keys, batch, threads] = ["", "keys", "batch", "threads"];
        write!(f, "{}; best run\n{what:<8}{keys:<11}{batch:>7}{threads:>9}", self.heading)?;
        write!(
            f,
            "{:>14}{:>12}   {:<16}{:>14}{:>8}",
            "rows/s", "speed", "beside", "rows/s", "share"
        )?;
        write!(f, "\n{:-<99}", "")?;
        self.rows.iter().try_for_each(|row| write!(f, "\n{row}"))
    }
}

impl fmt::Display for LevelRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LevelRow { what, keys, threads, rows_per_second, gb_per_second, .. } = self;
        let batch = if self.batch == 0 { "-".to_owned() } else { self.batch.to_string() };
        let rate = Rate(rows_per_second.best);
        write!(f, "{what:<8}{keys:<11}{batch:>7}{threads:>9}{rate:>14}{gb_per_second:>7.2} GB/s")?;
        if let (Some(Beside { name, rows_per_second }), Some(share)) = (&self.beside, self.share) {
            write!(f, "   {name:<16}{:>14}{share:>7.2}x", Rate(rows_per_second.best))?;
        }
        Ok(())
    }
}

/// Rows a second, in millions or thousands.
struct Rate(f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            many if many >= 1e6 => f.pad(&format!("{:.2} M", many * 1e-6)),
            few => f.pad(&format!("{:.1} k", few * 1e-3)),
        }
    }
}

impl fmt::Display for GpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GpuReport { device, rows, dim, copy_gb_per_second, bus_gb_per_second, .. } = self;
        writeln!(f, "{device}: {rows} rows of {dim} numbers; best run")?;
        write!(f, "copies move {copy_gb_per_second:.0} GB/s, the bus {bus_gb_per_second:.1} GB/s")?;
        write!(f, "\n{:<34}{:>10}{:>14}{:>18}", "", "keys", "a call", "keys/s")?;
        write!(f, "{:>14}{:>8}\n{:-<98}", "bandwidth", "share", "")?;
        for GpuRow { what, keys, us, limit_us, .. } in &self.measurements {
            let (rate, share) = (*keys as f64 / us * 1e-3, limit_us / us);
            write!(f, "\n{what:<34}{keys:>10}{us:>11.2} us{rate:>16.3} G")?;
            write!(f, "{limit_us:>11.2} us{share:>7.2}x")?;
        }
        Ok(())
    }
}
