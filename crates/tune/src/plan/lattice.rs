//! The lattice of a batch: its columns are cells of chunks, its rows are runs of layers.
//!
//! Gradients do not depend on it, only memory and time do: within a cell everything that backward
//! needs is kept, between cells only what checkpoints keep. Chunks are
//! another matter: what a policy evicts depends on them, so they are fixed before cells are.

use std::ops::Range;

use terrace_cache::policy::KvCacheSpec;

use super::cell_length::CellLength;
use super::layer_rows::layer_rows;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatticeOptions {
    pub layers_per_cell: usize,
    pub cell_length: CellLength,
    /// Each target is a chunk of its own, as in generation.
    pub single_tokens_for_targets: bool,
    /// Read where chunks have random sizes.
    pub chunk_seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lattice {
    /// Tokens of each chunk.
    chunks: Vec<usize>,
    cells: Vec<Cell>,
    rows: Vec<Range<usize>>,
}

/// Some chunks one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub chunks: Range<usize>,
    /// Positions of their tokens.
    pub tokens: Range<usize>,
}

impl Lattice {
    /// Of sequences of `tokens` inputs, of which the last `targets` have a target.
    pub fn new(
        spec: &KvCacheSpec,
        layers: usize,
        tokens: usize,
        targets: usize,
        options: &LatticeOptions,
    ) -> Result<Self, Error> {
        let LatticeOptions { layers_per_cell, cell_length, .. } = *options;
        let positive = |argument, value: usize| match value {
            0 => {
                Err(Error::BadArgument { argument, value: "0".into(), wanted: "1 or more".into() })
            }
            _ => Ok(()),
        };
        positive("grad.layers_per_cell", layers_per_cell)?;
        positive("the number of input tokens", tokens)?;
        let multiplier = cell_length.multiplier();
        if !(CellLength::MULTIPLIER_LEAST..).contains(&multiplier) {
            return Err(Error::BadArgument {
                argument: "grad.chunks_per_cell_multiplier",
                value: multiplier.to_string(),
                wanted: format!("{} or more", CellLength::MULTIPLIER_LEAST),
            });
        }
        let singles = if options.single_tokens_for_targets { targets.min(tokens) } else { 0 };
        let mut chunks = spec.chunk_plan(tokens - singles, options.chunk_seed);
        chunks.extend(vec![1; singles]);
        let slots = spec.lengths().iter().copied().max().unwrap_or(0);
        let cells = cells(&chunks, cell_length.tokens(slots));
        Ok(Lattice { cells, chunks, rows: layer_rows(layers, layers_per_cell) })
    }

    pub fn chunks(&self) -> &[usize] {
        &self.chunks
    }

    /// Tokens of a cell's chunks.
    pub fn chunks_of(&self, cell: &Cell) -> &[usize] {
        &self.chunks[cell.chunks.clone()]
    }

    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The layers of each row, from the first layer on.
    pub fn rows(&self) -> &[Range<usize>] {
        &self.rows
    }

    pub fn tokens(&self) -> usize {
        self.chunks.iter().sum()
    }

    /// Panics unless cells and rows cover everything once, in order.
    pub fn check(&self) {
        let (mut chunk, mut token) = (0, 0);
        for cell in &self.cells {
            assert_eq!((cell.chunks.start, cell.tokens.start), (chunk, token), "{cell:?}");
            assert!(!cell.chunks.is_empty(), "{cell:?}");
            let tokens: usize = self.chunks_of(cell).iter().sum();
            assert_eq!(cell.tokens.len(), tokens, "{cell:?}");
            (chunk, token) = (cell.chunks.end, cell.tokens.end);
        }
        assert_eq!((chunk, token), (self.chunks.len(), self.tokens()), "the last cell's end");
        let ends = self.rows.iter().map(|row| row.end);
        assert!(self.rows.iter().skip(1).map(|row| row.start).eq(ends.take(self.rows.len() - 1)));
    }
}

/// Chunks in runs of at most `most` tokens; a longer chunk is a cell alone.
fn cells(chunks: &[usize], most: usize) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut token = 0;
    for (chunk, tokens) in chunks.iter().enumerate() {
        match cells.last_mut() {
            Some(cell) if cell.tokens.len() + tokens <= most => {
                cell.chunks.end = chunk + 1;
                cell.tokens.end = token + tokens;
            }
            _ => cells.push(Cell { chunks: chunk..chunk + 1, tokens: token..token + tokens }),
        }
        token += tokens;
    }
    cells
}
