//! Up to 32 queries as the lanes of what slots share: what they see, and their sums.

use super::query_run::{QueryRun, Sight};
use crate::tiles::BLOCK_COLUMNS;

#[derive(Clone, Copy)]
pub(super) struct QueryLanes {
    pub(super) oldest: [f32; BLOCK_COLUMNS],
    pub(super) newest: [f32; BLOCK_COLUMNS],
    /// Of powers of 2; infinite for queries that there are not, so that they share nothing.
    pub(super) log_sums: [f32; BLOCK_COLUMNS],
    pub(super) means: [f32; BLOCK_COLUMNS],
    count: usize,
}

impl QueryLanes {
    pub(super) const NONE: QueryLanes = QueryLanes {
        oldest: [0.0; BLOCK_COLUMNS],
        newest: [0.0; BLOCK_COLUMNS],
        log_sums: [f32::INFINITY; BLOCK_COLUMNS],
        means: [0.0; BLOCK_COLUMNS],
        count: 0,
    };

    /// sums: the logarithm of a query's sum and its mean
    pub(super) fn of(run: QueryRun<'_>, sums: impl Fn(usize) -> [f32; 2]) -> Self {
        let mut lanes = QueryLanes { count: run.count, ..QueryLanes::NONE };
        for query in 0..run.count {
            [lanes.oldest[query], lanes.newest[query]] = run.bounds(query);
            let [log_sum, mean] = sums(query);
            lanes.log_sums[query] = log_sum * std::f32::consts::LOG2_E;
            lanes.means[query] = mean;
        }
        lanes
    }

    /// ends: the least and the largest position of 32 slots
    pub(super) fn sight(&self, ends: [f32; 2]) -> Sight {
        let bounds = |query: usize| [self.oldest[query], self.newest[query]];
        Sight::of([bounds(0), bounds(self.count - 1)], ends)
    }
}
