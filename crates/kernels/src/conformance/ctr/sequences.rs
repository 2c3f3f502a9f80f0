//! Ops over the short sequences of samples.

use super::case_rows::{CaseOut, CaseRows};
use crate::conformance::{Report, SplitMix};
use crate::ctr::attend_sequences::{self, AttendSequencesArgs};
use crate::ctr::sequence_mask::{self, SequenceMaskArgs};
use crate::ops::Ops;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for rows in [1, 2, 10, 33] {
        for columns in [1, 3, 10, 64] {
            masked(ops, random, report, rows, columns);
        }
    }
    for dim in [1, 3, 4, 8, 9, 16, 33, 64] {
        for rows in [1, 2, 10, 33] {
            for columns in [1, 5, 10, 70] {
                attended(ops, random, report, dim, rows, columns);
            }
        }
    }
}

/// Lengths of sequences of up to so many, and some that are none.
fn lengths(ops: &Ops, random: &mut SplitMix, samples: usize, most: usize) -> CaseRows {
    let length = |_| match random.below(8) {
        0 => -1.5,
        1 => most as f32 + 2.0,
        2 => 1.75,
        _ => random.below(most + 1) as f32,
    };
    let numbers = (0..samples).map(length).collect();
    CaseRows::of(ops, random, numbers, 1)
}

fn masked(ops: &Ops, random: &mut SplitMix, report: &mut Report, rows: usize, columns: usize) {
    if report.skips("sequence_mask") {
        return;
    }
    let samples = 1 + random.below(30);
    let [from, to] = [rows, columns].map(|most| lengths(ops, random, samples, most));
    let mut out = CaseOut::new(ops, random, [samples, rows * columns]);
    let args = SequenceMaskArgs { from: from.view(), to: to.view(), columns };
    ops.sequence_mask(&args, out.view_mut());
    let mut want = vec![f32::NAN; samples * rows * columns];
    let lengths = from.numbers.iter().zip(&to.numbers);
    for ((from, to), want) in lengths.zip(want.chunks_exact_mut(rows * columns)) {
        sequence_mask::reference::mask(*from, *to, columns, want);
    }
    out.compare(report, "sequence_mask", &format!("{rows} by {columns}"), &want);
}

fn attended(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    dim: usize,
    rows: usize,
    columns: usize,
) {
    if report.skips("attend_sequences") {
        return;
    }
    let (samples, heads) = (1 + random.below(9), 1 + random.below(4));
    let hidden = heads * dim;
    let q = CaseRows::random(ops, random, [samples, rows * hidden]);
    let [k, v] = [(); 2].map(|()| CaseRows::random(ops, random, [samples, columns * hidden]));
    let mask = (random.below(2) == 0).then(|| {
        let numbers = (0..samples * rows * columns).map(|_| random.below(2) as f32).collect();
        CaseRows::of(ops, random, numbers, rows * columns)
    });
    let args = AttendSequencesArgs {
        q: q.view(),
        k: k.view(),
        v: v.view(),
        mask: mask.as_ref().map(CaseRows::view),
        heads,
        dim,
    };
    let mut out = CaseOut::new(ops, random, [samples, rows * hidden]);
    ops.attend_sequences(&args, out.view_mut());
    let mut want = vec![f32::NAN; samples * rows * hidden];
    let rows_of = |sample: usize, rows: &CaseRows| {
        rows.numbers[sample * rows.width..(sample + 1) * rows.width].to_vec()
    };
    for (sample, want) in want.chunks_exact_mut(rows * hidden).enumerate() {
        let inputs = [&q, &k, &v].map(|rows| rows_of(sample, rows));
        let mask = mask.as_ref().map(|mask| rows_of(sample, mask));
        let inputs = inputs.each_ref().map(Vec::as_slice);
        attend_sequences::reference::attend(&args, inputs, mask.as_deref(), want);
    }
    let case = format!("{rows} of {columns}, {heads} heads of {dim}, mask {}", mask.is_some());
    out.compare(report, "attend_sequences", &case, &want);
}
