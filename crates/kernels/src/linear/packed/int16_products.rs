//! Products of integer rows with a panel of quantised weights.
//!
//! For each block and group of columns the integers are multiplied and added exactly, then scaled
//! and added to the output in the blocks' order. A lane is an output, so neither the level nor the
//! rows beside it change a bit of it.

use super::format_kernel::FormatKernel;
use super::int16_rows::Int16Block;
use super::panel_format::{OPERANDS, PanelFormat, PanelPointer};
use super::row_block::RowBlock;
use crate::cpu::lanes::{Lanes, PanelLanes};
use crate::linear::weight_format::WeightFormat;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

/// `out[i]` of each row becomes its products with the panel's sixteen rows.
pub(crate) struct Int16Products<'a, X, W> {
    pub(crate) format: WeightFormat,
    /// The panel's bytes.
    pub(crate) panel: &'a [u8],
    pub(crate) rows: usize,
    /// A row of activations.
    pub(crate) x: X,
    /// Takes a row's products.
    pub(crate) write: W,
}

impl<'x, X, W> FormatKernel for Int16Products<'_, X, W>
where
    X: Fn(usize) -> &'x [Int16Block],
    W: FnMut(usize, &[f32; PANEL_ROWS]),
{
    fn format(&self) -> WeightFormat {
        self.format
    }

    fn plain<F: PanelFormat>(self) {
        let Int16Products { panel, rows, x, mut write, .. } = self;
        for row in 0..rows {
            let blocks = x(row);
            let products = std::array::from_fn(|lane| {
                let weights =
                    (0..blocks.len()).map(|block| RowBlock::unpack::<F>(panel, block, lane));
                weights.zip(blocks).fold(0.0, |sum, (weights, x)| plain_block::<F>(weights, x, sum))
            });
            write(row, &products);
        }
    }

    #[inline(always)]
    fn vectors<F: PanelFormat, S: PanelLanes>(self, lanes: S) {
        let Int16Products { panel, rows, x, mut write, .. } = self;
        let mut row = 0;
        while row < rows {
            row += match rows - row {
                1 => some_rows::<S, F, 1>(lanes, panel, row, &x, &mut write),
                2 | 3 => some_rows::<S, F, 2>(lanes, panel, row, &x, &mut write),
                4..8 => some_rows::<S, F, 4>(lanes, panel, row, &x, &mut write),
                _ => some_rows::<S, F, 8>(lanes, panel, row, &x, &mut write),
            };
        }
    }
}

/// `sum` and the products of one block.
fn plain_block<F: PanelFormat>(weights: RowBlock, x: &Int16Block, mut sum: f32) -> f32 {
    let offset = F::OFFSET_BITS.map_or(0, |bits| 1 << bits);
    let columns = BLOCK_COLUMNS / F::GROUPS;
    for group in 0..F::GROUPS {
        let range = group * columns..(group + 1) * columns;
        let pairs = weights.quants[range.clone()].iter().zip(&x.words[range]);
        let exact: i32 = pairs.map(|(&q, &x)| (i32::from(q) - offset) * i32::from(x)).sum();
        let [scale, least] = weights.scale_and_least::<F>(group);
        sum = (exact as f32).mul_add(scale * x.scale, sum);
        if F::HAS_LEAST {
            sum = least.mul_add(x.scaled_sums[sums_of::<F>(group)], sum);
        }
    }
    sum
}

/// Which of a block's sums is that of a group.
pub(super) const fn sums_of<F: PanelFormat>(group: usize) -> usize {
    if F::GROUPS == 1 { 0 } else { 1 + group }
}

/// `M` rows from `row` on; returns `M`.
#[inline(always)]
fn some_rows<'x, S: PanelLanes, F: PanelFormat, const M: usize>(
    lanes: S,
    panel: &[u8],
    row: usize,
    x: &impl Fn(usize) -> &'x [Int16Block],
    write: &mut impl FnMut(usize, &[f32; PANEL_ROWS]),
) -> usize {
    let x: [&[Int16Block]; M] = std::array::from_fn(|m| x(row + m));
    let blocks = x[0].len();
    assert_eq!(panel.len(), F::panel_bytes(blocks), "bytes of a panel");
    assert!(x.iter().all(|x| x.len() == blocks), "blocks of a row");
    let mut products = [[0.0; PANEL_ROWS]; M];
    for lane in (0..PANEL_ROWS).step_by(<S::Floats as Lanes>::COUNT) {
        let panel = PanelPointer { bytes: panel.as_ptr(), lane };
        // SAFETY: the panel has so many blocks, and so have the rows.
        let sums = unsafe { multiply::<S, F, M>(lanes, panel, blocks, x.map(<[_]>::as_ptr)) };
        for (products, sum) in products.iter_mut().zip(sums) {
            lanes.floats().write(sum, &mut products[lane..]);
        }
    }
    for (m, products) in products.iter().enumerate() {
        write(row + m, products);
    }
    M
}

/// How far ahead of its use memory is asked for: about what arrives in the time it takes.
pub(super) const AHEAD_BYTES: usize = 2048;

/// # Safety
/// The panel is one of `F` with so many blocks, as each row of `x` has.
#[inline(always)]
unsafe fn multiply<S: PanelLanes, F: PanelFormat, const M: usize>(
    lanes: S,
    panel: PanelPointer,
    blocks: usize,
    x: [*const Int16Block; M],
) -> [<S::Floats as Lanes>::Vector; M] {
    let base = lanes.floats();
    let mut sums = [base.splat(0.0); M];
    for block in 0..blocks {
        let ahead = panel.bytes.wrapping_add(F::block_at(block) + AHEAD_BYTES);
        base.prefetch_bytes(ahead, F::BLOCK_BYTES);
        // SAFETY: the caller's contract.
        let operands = unsafe { panel.operands::<S, F>(lanes, block) };
        let columns = OPERANDS / F::GROUPS;
        for group in 0..F::GROUPS {
            // SAFETY: the caller's contract.
            let scale_and_least = unsafe { panel.scale_and_least::<S, F>(lanes, block, group) };
            for m in 0..M {
                // SAFETY: the caller's contract.
                let x = unsafe { &*x[m].add(block) };
                let mut exact = match F::OFFSET_BITS {
                    Some(bits) => {
                        let minus_sum = lanes.splat_ints(x.minus_sums[sums_of::<F>(group)]);
                        lanes.shift_left(minus_sum, bits)
                    }
                    None => lanes.splat_ints(0),
                };
                // Of a length known to the compiler: operands shall stay in registers.
                for (t, &operand) in operands[group * columns..][..columns].iter().enumerate() {
                    exact = lanes.dot_int16(operand, pair(lanes, x, group * columns + t), exact);
                }
                let x = [x.scale, x.scaled_sums[sums_of::<F>(group)]];
                sums[m] = add_exact::<S, F>(lanes, exact, x, scale_and_least, sums[m]);
            }
        }
    }
    sums
}

/// `sum` and the exact product of a group of columns, scaled · x: the row's scale and scaled sum
#[inline(always)]
pub(super) fn add_exact<S: PanelLanes, F: PanelFormat>(
    lanes: S,
    exact: S::Ints,
    [x_scale, x_sum]: [f32; 2],
    [scale, least]: [<S::Floats as Lanes>::Vector; 2],
    sum: <S::Floats as Lanes>::Vector,
) -> <S::Floats as Lanes>::Vector {
    let base = lanes.floats();
    let factor = base.mul(scale, base.splat(x_scale));
    let sum = base.mul_add(lanes.to_floats(exact), factor, sum);
    match F::HAS_LEAST {
        true => base.mul_add(least, base.splat(x_sum), sum),
        false => sum,
    }
}

/// Columns `2 t` and `2 t + 1` of a row, in every lane.
#[inline(always)]
fn pair<S: PanelLanes>(lanes: S, x: &Int16Block, t: usize) -> S::Ints {
    // SAFETY: a pair of words of the block.
    lanes.splat_ints(unsafe { x.words.as_ptr().cast::<i32>().add(t).read_unaligned() })
}
