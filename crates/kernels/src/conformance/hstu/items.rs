//! The best items of queries. Numbers are small and whole, so that sums are exact in every order
//! and equal scores are many.

use terrace_device::DType;

use crate::conformance::placed::Placed;
use crate::conformance::{Report, SIZES, SplitMix};
use crate::hstu::top_items::{TopItemsArgs, reference};
use crate::ops::Ops;

/// Items of a table; the last ones are several segments of a GPU's.
const ITEMS: [usize; 6] = [1, 2, 31, 513, 33_000, 70_001];

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES.into_iter().chain([1024, 1030]) {
        let items = 1 + random.below(2000);
        let most = 1 + random.below(300);
        top_items(ops, random, report, [items, dim, most]);
    }
    for items in ITEMS {
        for dim in [3, 8] {
            let most = [1, 10, 1 + random.below(2000)][random.below(3)];
            top_items(ops, random, report, [items, dim, most]);
        }
    }
}

/// Queries and a table of small whole numbers, and what each query leaves out.
struct ItemCase {
    queries: Vec<f32>,
    table: Vec<f32>,
    stride: usize,
    scale: Option<Vec<f32>>,
    excluded: Vec<Vec<i32>>,
}

impl ItemCase {
    fn new(random: &mut SplitMix, items: usize, dim: usize) -> Self {
        let queries = 1 + random.below(TopItemsArgs::QUERIES);
        let mut whole = |count: usize| -> Vec<f32> {
            (0..count).map(|_| random.below(7) as f32 - 3.0).collect()
        };
        let stride = dim + [0, 4, 3][items % 3];
        let (query_numbers, mut table) = (whole(queries * dim), whole(items * stride));
        // One item has a score that is no number.
        if 30 < items {
            table[7 * stride] = f32::NAN;
        }
        let scale = (random.below(2) == 0)
            .then(|| (0..items).map(|_| [0.5, 1.0, 2.0][random.below(3)]).collect());
        let mut excluded = || -> Vec<i32> {
            let count = random.below(3) * random.below(items.min(40) + 1);
            (0..count).map(|_| random.below(items) as i32).collect()
        };
        let excluded = (0..queries).map(|_| excluded()).collect();
        ItemCase { queries: query_numbers, table, stride, scale, excluded }
    }

    /// Scores of all items with a query.
    fn scores(&self, query: usize, dim: usize) -> Vec<f32> {
        let numbers = &self.queries[query * dim..(query + 1) * dim];
        let rows = self.table.chunks_exact(self.stride).enumerate();
        rows.map(|(item, row)| {
            let scale = self.scale.as_ref().map_or(1.0, |scale| scale[item]);
            scale * reference::score(numbers, &row[..dim])
        })
        .collect()
    }
}

fn top_items(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    [items, dim, most]: [usize; 3],
) {
    if report.skips("top_items") {
        return;
    }
    let (device, case) = (ops.device(), ItemCase::new(random, items, dim));
    let queries = case.excluded.len();
    let mut starts = vec![0];
    for rows in &case.excluded {
        starts.push(starts[starts.len() - 1] + rows.len() as i32);
    }
    // There may be none.
    let rows: Vec<i32> = case.excluded.iter().flatten().copied().chain([0]).collect();
    let scale = case.scale.as_ref().map(|it| ops.place_vector(it).expect("a small vector"));
    let placed_queries = Placed::of(&device, &case.queries, [queries, dim]);
    let placed_table = Placed::of(&device, &case.table, [items, case.stride]);
    let placed_starts = Placed::of(&device, &starts, [queries + 1]);
    let placed_rows = Placed::of(&device, &rows, [rows.len()]);
    let bytes = ops.top_items_scratch_bytes(items, most);
    let mut scratch = Placed::poisoned(&device, DType::U8, [bytes]);
    let mut scores = Placed::poisoned(&device, DType::F32, [queries, most]);
    let mut found = Placed::poisoned(&device, DType::I32, [queries, most]);
    ops.top_items(TopItemsArgs {
        queries: placed_queries.view(),
        items: placed_table.view().columns(0, dim),
        item_scale: scale.as_ref(),
        excluded_starts: placed_starts.view(),
        excluded: placed_rows.view(),
        scratch: scratch.view_mut(),
        scores: scores.view_mut(),
        rows: found.view_mut(),
    });
    let (scores, found) = (scores.to_numbers(), found.to_ids());
    for query in 0..queries {
        let part = query * most..(query + 1) * most;
        let pairs = found[part.clone()].iter().copied().zip(scores[part].iter().copied());
        let mut got: Vec<(i32, f32)> = pairs.filter(|(row, _)| 0 <= *row).collect();
        got.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let want = reference::best(&case.scores(query, dim), &case.excluded[query], most);
        let case = format!("{most} of {items}x{dim}, query {query} of {queries}");
        report.compare_exactly("top_items", case, &got, &want);
    }
}
