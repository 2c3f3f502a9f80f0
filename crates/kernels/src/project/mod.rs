//! Products of tokens with weight matrices: `out = x * weight^T + bias`.
//!
//! x: f32 `[tokens, columns]` · each part: weight `[rows, columns]`, bias f32 `[rows]`, out f32
//! `[tokens, rows]`
//!
//! A task is a block of weight rows: they are unpacked into the worker's scratch once and then
//! meet every token. All parts of a call (queries, keys and values, say) are shared out at once.
//!
//! Roofline: `2 tokens` flops per weight. One token is bound by reading and unpacking the weights
//! (0.6 bytes each for Q4_1); from about 30 tokens on, by multiplication.

pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::matrix::Matrix;
use crate::ops::{Ops, Projection};

pub(crate) fn project(ops: &Ops, x: View<'_>, parts: &mut [Projection<'_>]) {
    let [tokens, columns] = x.dims();
    for part in parts {
        let rows = part.weight.rows();
        assert_eq!(part.weight.columns(), columns, "columns of weight");
        assert_eq!(part.out.dims(), [tokens, rows], "out of project");
        if let Some(bias) = part.bias {
            assert_eq!(bias.dims(), [rows], "bias of project");
        }
        multiply(ops, x, part.weight, part.bias, &mut part.out);
    }
}

fn multiply(
    ops: &Ops,
    x: View<'_>,
    weight: &Matrix,
    bias: Option<View<'_>>,
    out: &mut ViewMut<'_>,
) {
    let out = SharedRows::<f32>::new(out);
    let bias = bias.map(|bias| bias.as_slice::<f32>());
    ops.pool.run(weight.rows(), &|worker, row| {
        let mut scratch = ops.scratch(worker);
        let unpacked = &mut scratch[..weight.columns()];
        ops.unpack(weight.format(), weight.row(row), unpacked);
        let bias = bias.map_or(0.0, |bias| bias[row]);
        for token in 0..out.rows() {
            // SAFETY: each column of `out` is one task's.
            let out = unsafe { out.part_mut(token, row..row + 1) };
            out[0] = reference::dot(x.row(token), unpacked) + bias;
        }
    });
}
