//! The dot products of all pairs of a sample's vectors, after the first of the vectors.
//!
//! x: act `[samples, dim]`, the first vector · embeddings: act `[samples, count * dim]`, the
//! others · out: act `[samples, dim + (count + 1) * count / 2 + 1]`: the first vector, products of
//! vector `j` with each `i < j` for `j` from 1 on, and one 0, by which HugeCTR evens the width out.
//!
//! Roofline: `count / 2` flops per byte read; bound by memory up to about 26 vectors, then by
//! multiplication.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::tiles::tile;

/// How many numbers a sample's result has.
pub fn interaction_width(dim: usize, count: usize) -> usize {
    dim + (count + 1) * count / 2 + 1
}

pub(crate) fn interact(ctx: &CpuCtx, x: View<'_>, embeddings: View<'_>, out: ViewMut<'_>) {
    let ([samples, dim], [found, width]) = (x.dims(), embeddings.dims());
    assert!(found == samples && width.is_multiple_of(dim), "embeddings of interact");
    let wanted = [samples, interaction_width(dim, width / dim)];
    assert_eq!(out.dims(), wanted, "out of interact");
    ctx.write_rows(out, |row, out| {
        ctx.simd.run(Interact { x: x.row(row), embeddings: embeddings.row(row), out });
    });
}

struct Interact<'a> {
    x: &'a [f32],
    embeddings: &'a [f32],
    out: &'a mut [f32],
}

impl<'a> Interact<'a> {
    #[inline(always)]
    fn vector(&self, index: usize) -> &'a [f32] {
        let dim = self.x.len();
        match index.checked_sub(1) {
            None => self.x,
            Some(index) => &self.embeddings[index * dim..(index + 1) * dim],
        }
    }

    /// Products of vectors `first..first + M`, or fewer, with all before each of them.
    #[inline(always)]
    fn rows<L: Lanes, const M: usize>(&mut self, lanes: L, first: usize, count: usize) {
        let dim = self.x.len();
        let mut left = [&[][..]; M];
        for (m, left) in left.iter_mut().enumerate() {
            *left = self.vector((first + m).min(count));
        }
        let last = count.min(first + M - 1);
        for start in (0..last).step_by(4) {
            let mut right = [&[][..]; 4];
            for (n, right) in right.iter_mut().enumerate() {
                *right = self.vector((start + n).min(count));
            }
            let products = tile::<L, _, M, 4>(lanes, left, right, dim);
            for (m, products) in products.iter().enumerate() {
                let j = first + m;
                if j <= count && start < j {
                    let n = 4.min(j - start);
                    let at = dim + j * (j - 1) / 2 + start;
                    self.out[at..at + n].copy_from_slice(&products[..n]);
                }
            }
        }
    }
}

impl Kernel for Interact<'_> {
    fn reference(self) {
        reference::interact(self.x, self.embeddings, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let dim = self.x.len();
        let count = self.embeddings.len() / dim;
        self.out[..dim].copy_from_slice(self.x);
        let mut first = 1;
        while first <= count {
            // As many sums as registers can hold.
            match L::TILE_ROWS {
                ..4 => self.rows::<L, 2>(lanes, first, count),
                4.. => self.rows::<L, 4>(lanes, first, count),
            }
            first += if L::TILE_ROWS < 4 { 2 } else { 4 };
        }
        let last = self.out.len() - 1;
        self.out[last] = 0.0;
    }
}
