//! The task of HSTU attention: some live rows of one sequence, and one head.

use std::ops::Range;

use terrace_device::View;

use super::attend_args::RowScale;
use super::relative_bias::RelativeBias;
use super::row_span::RowSpan;
use crate::attention::blocks::{OutRows, QueryRows};
use crate::attention::kv_rows::KvRows;

pub(super) struct Tile<'a> {
    pub(super) q: QueryRows<'a>,
    /// Each row's result is this task's alone.
    pub(super) out: OutRows<'a>,
    pub(super) kv: KvRows<'a>,
    pub(super) seq: usize,
    pub(super) tokens: Range<usize>,
    /// The position that counts as the first candidate's.
    pub(super) first_candidate: usize,
    /// i32 `[all tokens, 4]`
    pub(super) spans: View<'a>,
    pub(super) scale: f32,
    pub(super) bias: Option<RelativeBias<'a>>,
    pub(super) row_scale: RowScale<'a>,
    pub(super) scratch: &'a mut [f32],
}

/// A run of keys: their first position, and what rows see of them, counted from there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment {
    History,
    Candidates,
}

impl Tile<'_> {
    pub(super) fn rows(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn span(&self, row: usize) -> RowSpan {
        RowSpan::of(self.spans.row(self.tokens.start + row))
    }

    pub(super) fn visible(&self, segment: Segment, row: usize) -> Range<usize> {
        let RowSpan { history, candidates } = self.span(row);
        match segment {
            Segment::History => history,
            Segment::Candidates => candidates,
        }
    }

    /// The position of a segment's first key.
    pub(super) fn first_position(&self, segment: Segment) -> usize {
        match segment {
            Segment::History => 0,
            Segment::Candidates => self.first_candidate,
        }
    }

    /// What any row sees of a segment.
    pub(super) fn seen(&self, segment: Segment) -> Range<usize> {
        let visible = (0..self.rows()).map(|row| self.visible(segment, row));
        let visible = visible.filter(|visible| !visible.is_empty());
        visible.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default()
    }

    /// What scores of a row with the keys from `key` on get added.
    pub(super) fn add_bias(&self, row: usize, key: usize, scores: &mut [f32]) {
        if let Some(bias) = &self.bias {
            let token = self.tokens.start + row;
            let position = self.kv.position_of(token);
            for (i, score) in scores.iter_mut().enumerate() {
                *score += bias.get(self.seq, token, position, key + i);
            }
        }
    }

    /// What a row's sums are multiplied by, or else divided by.
    pub(super) fn finish(&self, row: usize, sums: &mut [f32]) {
        match self.row_scale {
            RowScale::DivideBy(divisor) => sums.iter_mut().for_each(|sum| *sum /= divisor),
            RowScale::Multiply(factors) => {
                let factor = factors.as_slice::<f32>()[self.tokens.start + row];
                sums.iter_mut().for_each(|sum| *sum *= factor);
            }
        }
    }
}
