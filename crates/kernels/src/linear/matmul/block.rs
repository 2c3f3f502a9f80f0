//! Some rows of a weight matrix, and all tokens or a run of them: the task of a product.

use std::ops::Range;

use terrace_device::{SharedRows, View};

use super::packed::{self, PackedProducts};
use super::reference;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::ctr::activation::{Activate, CtrActivation};
use crate::linear::matrix::Matrix;
use crate::linear::unpack::{self, block_32::for_block_32};
use crate::tiles::{Products, products};

/// Rows of a block, by which the widest matrix is limited.
pub(crate) const MIN_BLOCK_ROWS: usize = 8;
pub(super) const MAX_BLOCK_ROWS: usize = 32;
/// Floats of an unpacked block: a quarter of a megabyte stays in the second-level cache.
pub(super) const BLOCK_FLOATS: usize = 1 << 16;

/// Up to here, unpacked weights are used so rarely that they should not leave the first-level
/// cache, and are unpacked a few rows at a time.
const FEW_TOKENS: usize = 16;

pub(super) struct Block<'a> {
    pub(super) x: View<'a>,
    /// Those that it meets.
    pub(super) tokens: Range<usize>,
    pub(super) weight: &'a Matrix,
    pub(super) rows: Range<usize>,
    /// Of these rows.
    pub(super) bias: Option<&'a [f32]>,
    /// Of each number of the result.
    pub(super) activation: Option<CtrActivation>,
    pub(super) out: SharedRows<'a, f32>,
    pub(super) scratch: &'a mut [f32],
}

impl Kernel for Block<'_> {
    fn reference(mut self) {
        let columns = self.weight.columns();
        let unpacked = &mut std::mem::take(&mut self.scratch)[..columns];
        for (i, row) in self.rows.clone().enumerate() {
            unpack::reference::unpack(self.weight.format(), self.weight.row(row), unpacked);
            for token in self.tokens.clone() {
                // SAFETY: one slice at a time.
                let out = unsafe { self.out(token) };
                out[i] = reference::dot(self.x.row(token), unpacked);
            }
        }
        match self.activation {
            Some(kind) => self.finish(|x| Activate { x, kind }.reference()),
            None => self.finish(|_| {}),
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let scratch = std::mem::take(&mut self.scratch);
        if packed::MOST_ROWS < self.tokens.len() || !self.multiply_packed(lanes) {
            self.multiply_unpacked(lanes, scratch);
        }
        match self.activation {
            Some(kind) => self.finish(|x| Activate { x, kind }.simd(lanes)),
            None => self.finish(|_| {}),
        }
    }
}

impl Block<'_> {
    /// Returns false when the format has no such path.
    #[inline(always)]
    fn multiply_packed<L: Lanes>(&self, lanes: L) -> bool {
        let products = PackedProducts {
            lanes,
            rows: self.tokens.len(),
            x: |token| self.x.row::<f32>(self.tokens.start + token),
            weights: self.weight.rows_bytes(self.rows.clone()),
            columns: self.weight.columns(),
            // SAFETY: one slice at a time.
            write: |products: Products| {
                products.write(unsafe { self.out(self.tokens.start + products.row) });
            },
        };
        for_block_32(self.weight.format(), products)
    }

    #[inline(always)]
    fn multiply_unpacked<L: Lanes>(&self, lanes: L, scratch: &mut [f32]) {
        let (columns, tokens) = (self.weight.columns(), self.tokens.len());
        let step_rows = if tokens <= FEW_TOKENS { MIN_BLOCK_ROWS } else { self.rows.len() };
        for start in self.rows.clone().step_by(step_rows) {
            let some_rows = start..self.rows.end.min(start + step_rows);
            let weights = match self.weight.rows_in_place(some_rows.clone()) {
                Some(weights) => weights,
                None => {
                    let unpacked = &mut scratch[..some_rows.len() * columns];
                    let bytes = self.weight.rows_bytes(some_rows);
                    lanes.unpack(self.weight.format(), bytes, unpacked);
                    unpacked
                }
            };
            let x = |token| self.x.row::<f32>(self.tokens.start + token);
            products(lanes, tokens, x, weights, columns, |products| {
                // SAFETY: one slice at a time.
                let out = unsafe { self.out(self.tokens.start + products.row) };
                products.write(&mut out[start - self.rows.start..]);
            });
        }
    }

    /// Adds the bias, and applies a function to what there is then.
    #[inline(always)]
    fn finish(&self, activate: impl Fn(&mut [f32])) {
        if self.bias.is_none() && self.activation.is_none() {
            return;
        }
        for token in self.tokens.clone() {
            // SAFETY: one slice at a time.
            let out = unsafe { self.out(token) };
            for (out, bias) in out.iter_mut().zip(self.bias.into_iter().flatten()) {
                *out += bias;
            }
            activate(out);
        }
    }

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
}
