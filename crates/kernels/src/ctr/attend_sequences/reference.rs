//! One query of one head; sums are carried in f64, so that it can serve as the truth.

use super::{ADDED, AttendSequencesArgs, HIDDEN, HeadRows};
use crate::ctr::softmax_rows;

/// All of a sample; the args' views are not looked at.
pub(crate) fn attend(
    args: &AttendSequencesArgs<'_>,
    [q, k, v]: [&[f32]; 3],
    mask: Option<&[f32]>,
    out: &mut [f32],
) {
    let hidden = args.heads * args.dim;
    let columns = k.len() / hidden;
    let mut weights = vec![0.0; columns];
    for (at, out) in out.chunks_exact_mut(args.dim).enumerate() {
        let (row, first) = (at / args.heads, at % args.heads * args.dim);
        let head = HeadRows { hidden, first, dim: args.dim };
        let mask = mask.map(|mask| &mask[row * columns..(row + 1) * columns]);
        scores(head.of(q, row), k, head, mask, &mut weights);
        let added = if mask.is_some() { ADDED } else { 0.0 };
        softmax_rows::reference::softmax(&mut weights, added);
        values(&weights, v, head, out);
    }
}

pub(super) fn scores(
    q: &[f32],
    k: &[f32],
    head: HeadRows,
    mask: Option<&[f32]>,
    scores: &mut [f32],
) {
    let most = mask.map_or(0.0, |mask| mask.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    for (index, score) in scores.iter_mut().enumerate() {
        let products = q.iter().zip(head.of(k, index)).map(|(q, k)| f64::from(*q) * f64::from(*k));
        let hidden = mask.map_or(0.0, |mask| f64::from((most - mask[index]) * HIDDEN));
        *score = (products.sum::<f64>() / (head.dim as f64).sqrt() - hidden) as f32;
    }
}

pub(super) fn values(weights: &[f32], v: &[f32], head: HeadRows, out: &mut [f32]) {
    for (column, out) in out.iter_mut().enumerate() {
        let numbers = weights
            .iter()
            .enumerate()
            .map(|(index, weight)| f64::from(*weight) * f64::from(head.of(v, index)[column]));
        *out = numbers.sum::<f64>() as f32;
    }
}
