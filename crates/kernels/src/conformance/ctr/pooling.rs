//! Rows of an embedding table, summed or averaged.

use super::case_rows::CaseOut;
use crate::conformance::placed::Placed;
use crate::conformance::{Report, SIZES, SplitMix};
use crate::ctr::pool_rows::{self, Combiner, PoolRowsArgs};
use crate::ops::Ops;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES.into_iter().chain([128, 500]) {
        for slots in [1, 2, 26] {
            for combiner in [Combiner::Sum, Combiner::Mean] {
                pooled(ops, random, report, dim, slots, combiner);
            }
        }
    }
}

fn pooled(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    dim: usize,
    slots: usize,
    combiner: Combiner,
) {
    if report.skips("pool_rows") {
        return;
    }
    let (samples, unique) = (1 + random.below(20), 1 + random.below(50));
    let table = random.numbers(unique * dim);
    let (mut index, mut offsets) = (Vec::new(), vec![0i32]);
    for _ in 0..samples * slots {
        let keys = [0, 1, 1, 2, 3, 17][random.below(6)];
        index.extend((0..keys).map(|_| random.below(unique) as i32));
        offsets.push(index.len() as i32);
    }
    let device = ops.device();
    let rows = Placed::of(&device, &table, [unique, dim]);
    // There is always something to look at.
    index.push(0);
    let placed_index = Placed::of(&device, &index, [index.len()]);
    index.pop();
    let placed_offsets = Placed::of(&device, &offsets, [offsets.len()]);
    let args = PoolRowsArgs {
        rows: rows.view(),
        index: placed_index.view().first(index.len()),
        offsets: placed_offsets.view(),
        combiner,
    };
    let mut out = CaseOut::new(ops, random, [samples, slots * dim]);
    ops.pool_rows(&args, out.view_mut());
    let mut want = vec![f32::NAN; samples * slots * dim];
    for (keys, want) in offsets.windows(2).zip(want.chunks_exact_mut(dim)) {
        let keys = &index[keys[0] as usize..keys[1] as usize];
        let rows = keys.iter().map(|row| &table[*row as usize * dim..][..dim]);
        pool_rows::reference::pool(rows, combiner.factor(keys.len()), want);
    }
    out.compare(report, "pool_rows", &format!("{slots} slots, {combiner:?}"), &want);
}
