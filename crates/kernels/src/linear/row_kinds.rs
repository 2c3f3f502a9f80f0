//! Which rows of a step are a prompt's, and which are tokens that were generated.
//!
//! The CPU computes the two differently: prompts come in many rows and go through the matrix
//! units, generated tokens come one by one and meet packed weights at the pace of memory. The
//! choice is a fact about the token, whatever else is in the step, so that an output never depends
//! on its batch-mates, and a sequence that is computed again gets the same numbers.

use std::ops::Range;

#[derive(Clone, Copy, Debug)]
pub enum RowKinds<'a> {
    /// Every row is a generated token's.
    Generated,
    /// Every row is a prompt's.
    Prompt,
    /// Rows by number, in order; each row is in one of the two. Of a sequence's rows the prompt's
    /// come first.
    Listed { prompt: &'a [u32], generated: &'a [u32] },
}

/// Some rows of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowList<'a> {
    /// So many from the first of these two on.
    Run {
        start: usize,
        count: usize,
    },
    These(&'a [u32]),
}

impl<'a> RowKinds<'a> {
    /// The prompts' rows of `rows`.
    pub(crate) fn prompt(&self, rows: usize) -> RowList<'a> {
        match *self {
            RowKinds::Generated => RowList::Run { start: 0, count: 0 },
            RowKinds::Prompt => RowList::Run { start: 0, count: rows },
            RowKinds::Listed { prompt, .. } => RowList::These(prompt),
        }
    }

    /// The generated ones of `rows`.
    pub(crate) fn generated(&self, rows: usize) -> RowList<'a> {
        match *self {
            RowKinds::Generated => RowList::Run { start: 0, count: rows },
            RowKinds::Prompt => RowList::Run { start: 0, count: 0 },
            RowKinds::Listed { generated, .. } => RowList::These(generated),
        }
    }

    /// Those of the first `rows` rows.
    #[must_use]
    pub fn first(&self, rows: usize) -> RowKinds<'a> {
        let first =
            |listed: &'a [u32]| &listed[..listed.partition_point(|&row| (row as usize) < rows)];
        match *self {
            RowKinds::Generated => RowKinds::Generated,
            RowKinds::Prompt => RowKinds::Prompt,
            RowKinds::Listed { prompt, generated } => {
                RowKinds::Listed { prompt: first(prompt), generated: first(generated) }
            }
        }
    }

    /// How many of these rows, which are one sequence's, are its prompt's.
    pub(crate) fn prompt_rows_in(&self, rows: Range<usize>) -> usize {
        match self {
            RowKinds::Generated => 0,
            RowKinds::Prompt => rows.len(),
            RowKinds::Listed { prompt, .. } => {
                let before = |row: usize| prompt.partition_point(|&known| (known as usize) < row);
                before(rows.end) - before(rows.start)
            }
        }
    }

    /// Panics unless the lists could be those of `rows` rows.
    pub(crate) fn check(&self, rows: usize) {
        if let RowKinds::Listed { prompt, generated } = self {
            let known = prompt.len() + generated.len();
            assert_eq!(known, rows, "rows of prompts and generated ones");
            let inside = prompt.iter().chain(*generated).all(|&row| (row as usize) < rows);
            assert!(inside, "a listed row is not one of {rows}");
            assert!(prompt.is_sorted() && generated.is_sorted(), "listed rows are in order");
        }
    }
}

impl<'a> RowList<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            RowList::Run { count, .. } => *count,
            RowList::These(rows) => rows.len(),
        }
    }

    pub(crate) fn get(&self, i: usize) -> usize {
        match self {
            RowList::Run { start, count } => {
                assert!(i < *count, "row {i} of {count}");
                start + i
            }
            RowList::These(rows) => rows[i] as usize,
        }
    }

    /// At most `most` from the `start`-th on.
    pub(crate) fn part(&self, start: usize, most: usize) -> RowList<'a> {
        let start = start.min(self.len());
        let count = most.min(self.len() - start);
        match *self {
            RowList::Run { start: first, .. } => RowList::Run { start: first + start, count },
            RowList::These(rows) => RowList::These(&rows[start..start + count]),
        }
    }
}
