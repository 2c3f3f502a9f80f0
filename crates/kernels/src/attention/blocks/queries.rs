//! The queries of one kv head, and where their results go.
//!
//! Queries of some tokens are numbered token by token, head by head.

use std::ops::Range;

use terrace_device::{SharedRows, View};

/// f32 `[tokens, heads, dim]`, of which some tokens and some heads count.
#[derive(Clone, Copy)]
pub(crate) struct QueryRows<'a> {
    rows: View<'a>,
    layout: QueryLayout,
}

/// As [`QueryRows`], to write.
#[derive(Clone, Copy)]
pub(crate) struct OutRows<'a> {
    rows: &'a SharedRows<'a, f32>,
    layout: QueryLayout,
}

#[derive(Clone, Copy)]
struct QueryLayout {
    first_token: usize,
    first_query: usize,
    first_head: usize,
    group: usize,
    dim: usize,
}

impl<'a> QueryRows<'a> {
    pub(crate) fn new(rows: View<'a>, first_token: usize, heads: Range<usize>) -> Self {
        let [_, _, dim] = rows.dims();
        QueryRows { rows, layout: QueryLayout::new(first_token, heads, dim) }
    }

    /// The queries behind the first so many.
    pub(crate) fn after(mut self, queries: usize) -> Self {
        self.layout.first_query += queries;
        self
    }

    pub(crate) fn get(&self, query: usize) -> &'a [f32] {
        let (token, numbers) = self.layout.of(query);
        &self.rows.row::<f32>(token)[numbers]
    }
}

impl<'a> OutRows<'a> {
    pub(crate) fn new(
        rows: &'a SharedRows<'a, f32>,
        first_token: usize,
        heads: Range<usize>,
        dim: usize,
    ) -> Self {
        OutRows { rows, layout: QueryLayout::new(first_token, heads, dim) }
    }

    /// Those behind the first so many queries.
    pub(crate) fn after(mut self, queries: usize) -> Self {
        self.layout.first_query += queries;
        self
    }

    pub(crate) fn dim(&self) -> usize {
        self.layout.dim
    }

    /// # Safety
    /// Until the slice is dropped, nobody else holds one of this query.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn get(&self, query: usize) -> &'a mut [f32] {
        let (token, numbers) = self.layout.of(query);
        // SAFETY: the caller's contract.
        unsafe { self.rows.part_mut(token, numbers) }
    }
}

impl QueryLayout {
    fn new(first_token: usize, heads: Range<usize>, dim: usize) -> Self {
        QueryLayout {
            first_token,
            first_query: 0,
            first_head: heads.start,
            group: heads.len(),
            dim,
        }
    }

    /// Token and numbers of a query.
    fn of(&self, query: usize) -> (usize, Range<usize>) {
        let query = self.first_query + query;
        let head = self.first_head + query % self.group;
        (self.first_token + query / self.group, head * self.dim..(head + 1) * self.dim)
    }
}
