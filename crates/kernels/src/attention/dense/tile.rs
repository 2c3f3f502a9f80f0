//! The task of dense attention: some tokens of one sequence and the heads of one kv head.

use std::ops::Range;

use super::partial_sums::PartialSums;
use crate::attention::blocks::{OutRows, QueryRows};
use crate::attention::kv_rows::KvRows;

/// Some tokens of one sequence, and the query heads of one kv head.
///
/// Its queries are numbered token by token, head by head.
pub(super) struct Tile<'a> {
    pub(super) q: QueryRows<'a>,
    /// Each query's result is this task's alone.
    pub(super) out: OutRows<'a>,
    pub(super) kv: KvRows<'a>,
    pub(super) tokens: Range<usize>,
    /// Query heads of the kv head.
    pub(super) group: usize,
    pub(super) scale: f32,
    pub(super) window: Option<usize>,
    /// Keys of one split alone, and where their sums go.
    pub(super) split: Option<(Range<usize>, PartialSums<'a>)>,
    pub(super) scratch: &'a mut [f32],
}

impl Tile<'_> {
    pub(super) fn queries(&self) -> usize {
        self.tokens.len() * self.group
    }

    /// Positions of the keys that a query sees.
    pub(super) fn visible(&self, query: usize) -> Range<usize> {
        let position = self.kv.position_of(self.tokens.start + query / self.group);
        let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
        first..position + 1
    }

    /// Positions of the keys that any query sees.
    pub(super) fn seen(&self) -> Range<usize> {
        self.visible(0).start..self.visible(self.queries() - 1).end
    }
}
