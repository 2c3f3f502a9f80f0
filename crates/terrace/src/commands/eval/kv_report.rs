//! What `terrace eval kv` found: tables for people, JSON, and plots.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::cache_case::Bounds;
use super::line_plot::{Line, LinePlot};
use super::needle::{FoundAt, GOOD_SHARE, NeedleRow};
use super::perplexity::PerplexityRow;
use super::table::Table;

/// The first row of both parts is dense.
#[derive(Serialize)]
pub struct KvReport {
    pub model: String,
    pub device: String,
    pub seed: u64,
    pub perplexity: Option<PerplexityPart>,
    pub needle: Option<NeedlePart>,
}

#[derive(Serialize)]
pub struct PerplexityPart {
    pub tokens: usize,
    pub segments: usize,
    pub rows: Vec<PerplexityRow>,
}

#[derive(Serialize)]
pub struct NeedlePart {
    /// Questions for each cache.
    pub questions: usize,
    pub rows: Vec<NeedleRow>,
    /// Where a dense cache finds enough.
    pub longest_good: Option<FoundAt<usize>>,
}

impl KvReport {
    /// Writes the plots that there is something for, and returns their names.
    pub fn write_plots(&self, folder: &Path) -> Result<Vec<String>> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let plots = [
            ("kv_perplexity.svg", self.perplexity.as_ref().map(PerplexityPart::plot)),
            ("kv_retrieval.svg", self.needle.as_ref().map(NeedlePart::plot)),
        ];
        let mut written = Vec::new();
        for (name, plot) in plots {
            let Some(plot) = plot else { continue };
            let path = folder.join(name);
            std::fs::write(&path, plot.to_string())
                .with_context(|| format!("cannot write {}", path.display()))?;
            written.push(path.display().to_string());
        }
        Ok(written)
    }
}

impl PerplexityPart {
    fn title(&self) -> String {
        match self.segments {
            1 => format!("Perplexity of {} tokens", self.tokens),
            several => format!("Perplexity of {several} times {} tokens", self.tokens),
        }
    }

    fn table(&self) -> Table {
        let header =
            ["cache", "slots", "chunk", "perplexity", "to dense", "lost beyond", "other best"];
        let mut table = Table::new(header);
        for row in &self.rows {
            table.push(vec![
                row.case.cache.clone(),
                slots(row.case.bounds, row.slots),
                chunk(row.case.bounds),
                format!("{:.3}", row.perplexity),
                format!("{:+.2}%", 100.0 * row.to_dense),
                // Nothing is not less than nothing.
                format!("{:+.4} ±{:.4}", row.lost_beyond + 0.0, row.lost_error),
                format!("{:.2}%", 100.0 * row.other_best),
            ]);
        }
        table
    }

    fn plot(&self) -> LinePlot {
        let dense = self.rows[0].perplexity;
        let worst = self.rows.iter().map(|row| row.perplexity).fold(dense, f64::max);
        // A policy that falls off a cliff must not press all others onto one line.
        let top = worst.min(1.6 * dense);
        let points =
            self.rows.iter().map(|row| (row.case.cache.as_str(), row.case.bounds, row.perplexity));
        LinePlot {
            title: self.title(),
            unit: "perplexity",
            level: (self.rows[0].case.cache.clone(), dense),
            lines: lines(points),
            range: (dense - 0.1 * (top - dense).max(0.1), top.max(dense + 0.1)),
        }
    }
}

impl NeedlePart {
    fn table(&self) -> Table {
        let lengths = self.rows[0].by_length.iter().map(|at| format!("{} tokens", at.at));
        let header = ["cache", "slots", "chunk", "found"].map(str::to_owned);
        let mut table = Table::new(header.into_iter().chain(lengths));
        let percent = |share: f64| format!("{:.0}%", 100.0 * share);
        for row in &self.rows {
            let share = row.case.bounds.map_or("all".into(), |bounds| bounds.share.to_string());
            let mut cells =
                vec![row.case.cache.clone(), share, chunk(row.case.bounds), percent(row.found)];
            cells.extend(row.by_length.iter().map(|at| percent(at.found)));
            table.push(cells);
        }
        table
    }

    fn plot(&self) -> LinePlot {
        let points = self
            .rows
            .iter()
            .map(|row| (row.case.cache.as_str(), row.case.bounds, 100.0 * row.found));
        LinePlot {
            title: "Numbers found again in a long text".into(),
            unit: "outputs with the number, %",
            level: (self.rows[0].case.cache.clone(), 100.0 * self.rows[0].found),
            lines: lines(points),
            range: (0.0, 100.0),
        }
    }
}

impl fmt::Display for KvReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}, seed {}", self.model, self.device, self.seed)?;
        if let Some(part) = &self.perplexity {
            writeln!(f, "\n{}\n\n{}", part.title(), part.table())?;
            writeln!(f, "lost beyond: nats that a token behind the first `slots` loses to dense")?;
        }
        let Some(part) = &self.needle else { return Ok(()) };
        let good = 100.0 * GOOD_SHARE;
        writeln!(f, "\nNumbers found, of {} in each cache\n\n{}", part.questions, part.table())?;
        match part.longest_good {
            Some(FoundAt { at, found }) => {
                let found = 100.0 * found;
                write!(f, "with everything kept: {found:.0}% at {at} tokens, the longest length ")?;
                write!(f, "of those tried with {good:.0}% or more")
            }
            None => write!(f, "with everything kept {good:.0}% are found at no length tried"),
        }
    }
}

/// One line for each cache and chunk size; caches without bounds are no points.
fn lines<'a>(points: impl Iterator<Item = (&'a str, Option<Bounds>, f64)>) -> Vec<Line> {
    let points: Vec<_> =
        points.filter_map(|(cache, bounds, value)| Some((cache, bounds?, value))).collect();
    let mut chunk_sizes: Vec<usize> =
        points.iter().map(|(_, bounds, _)| bounds.chunk_size).collect();
    chunk_sizes.sort_unstable();
    chunk_sizes.dedup();
    let mut lines: Vec<Line> = Vec::new();
    for (cache, Bounds { share, chunk_size }, value) in points {
        let name = match chunk_sizes.len() {
            1 => cache.to_owned(),
            _ => format!("{cache}, chunks of {chunk_size}"),
        };
        let index = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            lines.push(Line { name, points: Vec::new() });
            lines.len() - 1
        });
        lines[index].points.push((share.0, value));
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}

fn slots(bounds: Option<Bounds>, slots: usize) -> String {
    bounds.map_or("all".into(), |bounds| format!("{} ({slots})", bounds.share))
}

fn chunk(bounds: Option<Bounds>) -> String {
    bounds.map_or("-".into(), |bounds| bounds.chunk_size.to_string())
}
