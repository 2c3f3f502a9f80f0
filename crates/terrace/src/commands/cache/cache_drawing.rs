//! A cache drawn with characters: its pages, and for each head which parts of the text it keeps.

use std::fmt;

use terrace_engine::{CacheTrace, GroupTrace, KeptPositions, PageTrace};

/// Parts of the sequence, from its start to its end; a character each.
const PARTS: usize = 64;
/// From nothing kept of a part to all of it.
const DENSITIES: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub struct CacheDrawing<'a> {
    pub trace: &'a CacheTrace,
    /// `None` draws all.
    pub layers: Option<&'a [usize]>,
}

impl CacheDrawing<'_> {
    fn draw_group(&self, group: &GroupTrace, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupTrace { layers, keeps, page_slots, pages, kept } = group;
        let (first, last) = (layers.first().unwrap_or(&0), layers.last().unwrap_or(&0));
        writeln!(f, "\nlayers {first} to {last} ({}): {keeps}", layers.len())?;
        writeln!(f, "{} pages of {page_slots} slots: {}", pages.len(), in_runs(pages))?;
        let Some(kept) = kept else { return Ok(()) };
        writeln!(f, "{:>14} |{:-<PARTS$}| kept", "", "")?;
        for (layer, heads) in layers.iter().zip(kept) {
            if self.layers.is_some_and(|wanted| !wanted.contains(layer)) {
                continue;
            }
            for (head, kept) in heads.iter().enumerate() {
                let drawn = self.densities(kept);
                writeln!(f, "layer {layer:>2} head {head:<2}|{drawn}| {}", kept.count())?;
            }
        }
        Ok(())
    }

    fn densities(&self, kept: &KeptPositions) -> String {
        let tokens = self.trace.computed_tokens;
        let part = |part: usize| {
            let (start, end) = (part * tokens / PARTS, (part + 1) * tokens / PARTS);
            let full = DENSITIES.len() - 1;
            // Rounded up: one token of a part is seen.
            let level = (kept.count_in(start, end) * full).div_ceil((end - start).max(1));
            DENSITIES[level.min(full)]
        };
        (0..PARTS).map(part).collect()
    }
}

impl fmt::Display for CacheDrawing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CacheTrace { request, choice, state, prompt_tokens, computed_tokens, groups } =
            self.trace;
        write!(f, "request {request}, output {choice}: {state}, {computed_tokens} tokens have ")?;
        writeln!(f, "passed, the prompt has {prompt_tokens}")?;
        groups.iter().try_for_each(|group| self.draw_group(group, f))
    }
}

/// Pages that follow each other and have as many holders are one item.
fn in_runs(pages: &[PageTrace]) -> String {
    let follows = |a: &PageTrace, b: &PageTrace| a.page + 1 == b.page && a.holders == b.holders;
    let item = |run: &[PageTrace]| {
        let (first, last) = (run[0], run[run.len() - 1]);
        let pages = match run.len() {
            1 => first.page.to_string(),
            _ => format!("{}-{}", first.page, last.page),
        };
        match first.holders {
            1 => pages,
            holders => format!("{pages} (held by {holders})"),
        }
    };
    pages.chunk_by(follows).map(item).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_drawn_where_it_lies() {
        let pages = [(3, 2), (4, 2), (5, 1), (9, 1)];
        let kept = KeptPositions::new((0..64).chain(320..640).collect());
        let trace = CacheTrace {
            request: 7,
            choice: 0,
            state: "running".into(),
            prompt_tokens: 600,
            computed_tokens: 640,
            groups: vec![GroupTrace {
                layers: vec![0],
                keeps: "all tokens".into(),
                page_slots: 96,
                pages: pages.map(|(page, holders)| PageTrace { page, holders }).to_vec(),
                kept: Some(vec![vec![kept]]),
            }],
        };
        let drawn = CacheDrawing { trace: &trace, layers: None }.to_string();
        assert!(drawn.contains("3-4 (held by 2), 5, 9"), "{drawn}");
        let line = drawn.lines().last().expect("a head's line");
        let bars: String = ["█".repeat(6), "▄".into(), " ".repeat(25), "█".repeat(32)].concat();
        assert_eq!(line, format!("layer  0 head 0 |{bars}| 384"));
        let none = CacheDrawing { trace: &trace, layers: Some(&[1]) }.to_string();
        assert!(!none.contains("head 0"));
    }
}
