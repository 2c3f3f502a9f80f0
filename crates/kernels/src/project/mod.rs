//! Products of tokens with weight matrices: `out = x * weight^T + bias`.
//!
//! x: f32 `[tokens, columns]` · each part: weight `[rows, columns]`, bias f32 `[rows]`, out f32
//! `[tokens, rows]`
//!
//! A task is a block of weight rows: they are unpacked into the worker's scratch once and then
//! meet every token, so weights are never kept in a second form. All parts of a call (queries,
//! keys and values, say) are shared out at once. An output is one sum whose order depends on the
//! number of columns alone ([`products`]).
//!
//! Roofline: `2 tokens` flops per weight. One token is bound by reading and unpacking the weights
//! (0.6 bytes each for Q4_1); from about 30 tokens on, by multiplication.

pub(crate) mod products;
pub(crate) mod reference;

use std::ops::Range;

use terrace_device::{SharedRows, View};

use crate::lanes::{Kernel, Lanes};
use crate::matrix::Matrix;
use crate::ops::{Ops, Projection};
use crate::unpack;

/// Rows of a block, by which the widest matrix is limited.
pub(crate) const MIN_BLOCK_ROWS: usize = 8;
const MAX_BLOCK_ROWS: usize = 32;
/// Floats of an unpacked block: a quarter of a megabyte stays in the second-level cache.
const BLOCK_FLOATS: usize = 1 << 16;
/// Up to here, unpacked weights are used so rarely that they should not leave the first-level
/// cache, and are unpacked a few rows at a time.
const FEW_TOKENS: usize = 16;

#[expect(clippy::needless_pass_by_ref_mut, reason = "tasks write parts of the outputs")]
pub(crate) fn project(ops: &Ops, x: View<'_>, parts: &mut [Projection<'_>]) {
    let [tokens, columns] = x.dims();
    assert!(columns <= Ops::MAX_COLUMNS, "{columns} columns of at most {}", Ops::MAX_COLUMNS);
    for part in parts.iter() {
        let rows = part.weight.rows();
        assert_eq!(part.weight.columns(), columns, "columns of weight");
        assert_eq!(part.out.dims(), [tokens, rows], "out of project");
        assert!(part.bias.is_none_or(|bias| bias.dims() == [rows]), "bias of project");
    }
    let parts = &*parts;
    let rows = parts.iter().map(|part| part.weight.rows()).sum();
    let block_rows = block_rows(columns, rows, ops.threads());
    let blocks = parts.iter().map(|part| part.weight.rows().div_ceil(block_rows)).sum();
    ops.pool.run(blocks, &|worker, block| {
        let (part, rows) = locate(parts, block_rows, block);
        // SAFETY: `parts` was borrowed exclusively, and each block of columns is one task's.
        let out = unsafe { SharedRows::of_shared(&part.out) };
        let bias = part.bias.map(|bias| &bias.as_slice::<f32>()[rows.clone()]);
        ops.with_scratch(worker, |scratch| {
            ops.simd.run(Block { x, weight: part.weight, rows, bias, out, scratch });
        });
    });
}

/// Small enough that every thread gets several blocks, large enough to be worth claiming.
fn block_rows(columns: usize, rows: usize, threads: usize) -> usize {
    let cached = (BLOCK_FLOATS / columns.max(1)).clamp(MIN_BLOCK_ROWS, MAX_BLOCK_ROWS);
    let fair = rows.div_ceil(4 * threads);
    cached.min(fair).next_multiple_of(MIN_BLOCK_ROWS)
}

/// The part that block `block` of all parts falls into, and its rows there.
fn locate<'a, 'v>(
    parts: &'a [Projection<'v>],
    block_rows: usize,
    mut block: usize,
) -> (&'a Projection<'v>, Range<usize>) {
    for part in parts {
        let rows = part.weight.rows();
        let blocks = rows.div_ceil(block_rows);
        if block < blocks {
            let start = block * block_rows;
            return (part, start..rows.min(start + block_rows));
        }
        block -= blocks;
    }
    unreachable!("blocks were counted over the same parts")
}

/// Some rows of a weight matrix, and all tokens.
struct Block<'a> {
    x: View<'a>,
    weight: &'a Matrix,
    rows: Range<usize>,
    bias: Option<&'a [f32]>,
    out: SharedRows<'a, f32>,
    scratch: &'a mut [f32],
}

impl Block<'_> {
    /// The block's part of a token's outputs.
    ///
    /// # Safety
    /// The caller holds no other slice of it.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn out(&self, token: usize) -> &mut [f32] {
        // SAFETY: these columns are this task's alone, and the caller's contract.
        unsafe { self.out.part_mut(token, self.rows.clone()) }
    }

    fn add_bias(&self) {
        let Some(bias) = self.bias else { return };
        for token in 0..self.out.rows() {
            // SAFETY: one slice at a time.
            let out = unsafe { self.out(token) };
            out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
        }
    }
}

impl Kernel for Block<'_> {
    fn reference(mut self) {
        let columns = self.weight.columns();
        let unpacked = &mut std::mem::take(&mut self.scratch)[..columns];
        for (i, row) in self.rows.clone().enumerate() {
            unpack::reference::unpack(self.weight.format(), self.weight.row(row), unpacked);
            for token in 0..self.out.rows() {
                // SAFETY: one slice at a time.
                let out = unsafe { self.out(token) };
                out[i] = reference::dot(self.x.row(token), unpacked);
            }
        }
        self.add_bias();
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let scratch = std::mem::take(&mut self.scratch);
        let (columns, tokens) = (self.weight.columns(), self.out.rows());
        let panel_rows = if tokens <= FEW_TOKENS { MIN_BLOCK_ROWS } else { self.rows.len() };
        for start in self.rows.clone().step_by(panel_rows) {
            let panel = start..self.rows.end.min(start + panel_rows);
            let weights = match self.weight.rows_in_place(panel.clone()) {
                Some(weights) => weights,
                None => {
                    let unpacked = &mut scratch[..panel.len() * columns];
                    let bytes = self.weight.rows_bytes(panel.clone());
                    lanes.unpack(self.weight.format(), bytes, unpacked);
                    unpacked
                }
            };
            let x = |token| self.x.row::<f32>(token);
            products::products(lanes, tokens, x, weights, columns, |products| {
                // SAFETY: one slice at a time.
                let out = unsafe { self.out(products.row) };
                products.write(&mut out[start - self.rows.start..]);
            });
        }
        self.add_bias();
    }
}
