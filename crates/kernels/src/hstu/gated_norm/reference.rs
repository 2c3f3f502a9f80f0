//! One row, in plain order.

use super::{GatedForm, NormExtent, NormRule, Rows};
use crate::hstu::activate::reference::silu;
use crate::hstu::layer_norm::reference::statistics;

pub(crate) fn gated_norm(Rows { attention, u, out }: Rows<'_>, rule: &NormRule<'_>) {
    let NormRule { activates, affine, eps, form, extent } = *rule;
    let dim = attention.len();
    let (width, by_head) = match extent {
        NormExtent::AllHeads => (dim, false),
        NormExtent::EachHead { heads } => (dim / heads, true),
    };
    for (head, attention) in attention.chunks_exact(width).enumerate() {
        let (mean, factor) = statistics(attention, eps);
        for (i, a) in attention.iter().enumerate() {
            let at = head * width + i;
            let weight_at = if by_head { head } else { at };
            let normed = (a - mean) * factor;
            let normed = affine.map_or(normed, |affine| {
                normed * affine.weight[weight_at] + affine.bias[weight_at]
            });
            let gate = if activates { silu(u[at]) } else { u[at] };
            let gated = gate * normed;
            match form {
                GatedForm::Gated => out[at] = gated,
                GatedForm::WithAttention | GatedForm::WithNormed => {
                    out[at] = gate;
                    out[dim + at] = if form == GatedForm::WithNormed { normed } else { *a };
                    out[2 * dim + at] = gated;
                }
            }
        }
    }
}
