//! What the embedding rows of a job's tokens are.

use std::ops::Range;

#[derive(Clone, Debug)]
pub enum JobRows {
    /// By their numbers among the rows of the model's own tables.
    Numbers { history: Vec<i32>, candidates: Vec<i32> },
    /// A parameter server has them and is still to be asked for them.
    Unfetched { candidates: Vec<i64>, is_strict: bool },
    /// A parameter server gave them.
    Fetched(FetchedRows),
}

/// The rows of a history from some position on, and of the candidates behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedRows {
    /// Tokens of the history whose rows are not here, because they are cached.
    first: usize,
    /// Tokens of the history whose rows are here.
    history: usize,
    dims: RowDims,
    /// `[history + candidates, items]`
    items: Vec<f32>,
    /// `[tokens of the context, context]`, where context and items are embedded apart.
    context: Vec<f32>,
}

/// How many numbers rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDims {
    pub items: usize,
    /// Of the context's, where that is embedded apart.
    pub context: Option<usize>,
}

/// The tokens of a job whose rows are not here yet.
#[derive(Clone, Copy, Debug)]
pub struct UnfetchedTokens {
    pub first: usize,
    pub history: usize,
    pub candidates: usize,
    /// Of the history's tokens that are here, the context's.
    pub of_context: usize,
}

impl JobRows {
    pub fn candidates(&self) -> usize {
        match self {
            JobRows::Numbers { candidates, .. } => candidates.len(),
            JobRows::Unfetched { candidates, .. } => candidates.len(),
            JobRows::Fetched(rows) => rows.items.len() / rows.dims.items - rows.history,
        }
    }

    /// Tokens at the beginning of the history that must be cached: their rows are not here.
    pub fn first(&self) -> usize {
        match self {
            JobRows::Fetched(rows) => rows.first,
            _ => 0,
        }
    }

    /// So many cached tokens come before what is here. Their rows are not needed.
    pub fn prepend(&mut self, cached: usize) {
        match self {
            JobRows::Numbers { history, .. } => {
                let before = std::iter::repeat_n(0, cached);
                *history = before.chain(history.iter().copied()).collect();
            }
            JobRows::Unfetched { .. } => {}
            JobRows::Fetched(rows) => rows.first += cached,
        }
    }
}

impl FetchedRows {
    /// All zeros.
    pub fn zeros(tokens: UnfetchedTokens, dims: RowDims) -> Self {
        let UnfetchedTokens { first, history, candidates, of_context } = tokens;
        let context = dims.context.map_or(0, |dim| of_context * dim);
        let items = vec![0.0; (history + candidates) * dims.items];
        FetchedRows { first, history, dims, items, context: vec![0.0; context] }
    }

    /// The row of a token, counted from the first that is here.
    pub fn item_mut(&mut self, token: usize) -> &mut [f32] {
        &mut self.items[token * self.dims.items..][..self.dims.items]
    }

    /// The row of a token of the context, counted from the first that is here.
    pub fn context_mut(&mut self, token: usize) -> &mut [f32] {
        match self.dims.context {
            Some(dim) => &mut self.context[token * dim..][..dim],
            None => self.item_mut(token),
        }
    }

    /// Items of positions of the history, and of candidates.
    pub fn items(&self, history: &Range<usize>, candidates: &Range<usize>) -> [&[f32]; 2] {
        let of = |tokens: Range<usize>| {
            &self.items[tokens.start * self.dims.items..tokens.end * self.dims.items]
        };
        let here = history.start.max(self.first)..history.end.max(self.first);
        assert_eq!(here, *history, "positions whose rows are here");
        let behind = self.history;
        [
            of(history.start - self.first..history.end - self.first),
            of(behind + candidates.start..behind + candidates.end),
        ]
    }

    /// The context's rows of positions of the history, as far as these are of the context.
    pub fn context(&self, history: &Range<usize>) -> &[f32] {
        let Some(dim) = self.dims.context else { return &[] };
        let place = |position: usize| ((position - self.first) * dim).min(self.context.len());
        &self.context[place(history.start)..place(history.end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_position_also_behind_what_is_cached() {
        let tokens = UnfetchedTokens { first: 1, history: 3, candidates: 2, of_context: 1 };
        let mut rows = FetchedRows::zeros(tokens, RowDims { items: 2, context: Some(1) });
        for token in 0..5 {
            rows.item_mut(token).fill(token as f32);
        }
        rows.context_mut(0).fill(9.0);
        let mut rows = JobRows::Fetched(rows);
        assert_eq!((rows.candidates(), rows.first()), (2, 1));
        rows.prepend(4);
        assert_eq!((rows.candidates(), rows.first()), (2, 5));
        let JobRows::Fetched(rows) = rows else { panic!("they were fetched") };
        let [history, candidates] = rows.items(&(6..8), &(1..2));
        assert_eq!((history, candidates), (&[1.0, 1.0, 2.0, 2.0][..], &[4.0, 4.0][..]));
        assert_eq!(rows.context(&(5..8)), [9.0]);
        assert_eq!(rows.context(&(6..8)), [0.0; 0]);
    }

    #[test]
    fn numbers_of_rows_move_behind_what_is_cached() {
        let mut rows = JobRows::Numbers { history: vec![7, 8], candidates: vec![9] };
        rows.prepend(2);
        let JobRows::Numbers { history, candidates } = rows else { panic!("they are numbers") };
        assert_eq!((history, candidates), (vec![0, 0, 7, 8], vec![9]));
    }
}
