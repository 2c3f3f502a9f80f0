//! Products of integer rows with a panel of quantised weights, on the matrix units.
//!
//! Bit for bit what [`int16_products`](super::int16_products) computes: the integers of a block are
//! multiplied and added exactly, in whatever order, and then scaled and added as there. So which of
//! the two a row goes through may depend on how many others there are.
//!
//! A few blocks at a time are unpacked to bytes, which stay in the first-level cache, and then
//! multiplied by eight rows at a time.

use std::ops::Range;

use super::format_kernel::FormatKernel;
use super::int8_rows::{INT8_ROWS, Int8Tile, join};
use super::int16_products::{add_exact, sums_of};
use super::pair_sums::PairSums;
use super::panel_format::{
    BYTE_OPERANDS, ForPanelFormat, HEAD_BLOCKS, PanelFormat, PanelPointer, for_panel_format,
};
use crate::cpu::lanes::{Lanes, PanelLanes, TileRow, Tiles};
use crate::linear::weight_format::WeightFormat;
use crate::tiles::PANEL_ROWS;

/// Fewer rows than this are sooner done with vectors.
pub(crate) const LEAST_ROWS: usize = 6;

/// Products that are begun before the first of them is stored: storing one at once would wait for
/// it, and the next would wait for the store.
const STORED_LATER: usize = 1;

/// Products that are begun before the first of them is read.
const AHEAD: usize = STORED_LATER + 2;

/// Some rows, at most [`SUM_ROWS`](super::pair_sums::SUM_ROWS), with one panel.
pub(crate) struct Int8Products<'a, T> {
    /// For rows of [`tile_row`].
    pub(crate) tiles: Tiles<'a>,
    pub(crate) format: WeightFormat,
    pub(crate) panel: &'a [u8],
    pub(crate) rows: usize,
    /// The tiles of eight rows.
    pub(crate) x: T,
    pub(crate) memory: &'a mut Int8Memory,
    /// Takes the products, on side `side`.
    pub(crate) sums: &'a mut PairSums,
    pub(crate) side: usize,
}

/// What a worker needs for some blocks.
#[repr(C, align(64))]
pub(crate) struct Int8Memory {
    /// Weights: of each block `BYTE_OPERANDS` vectors.
    weights: [[[u8; 64]; BYTE_OPERANDS]; HEAD_BLOCKS],
    /// Products of eight rows, of a few groups of columns in turn.
    products: [[[i32; PANEL_ROWS]; 2 * INT8_ROWS]; AHEAD + 1],
}

/// The tiles that a format needs: a product has the columns of one scale.
pub(crate) fn tile_row(format: WeightFormat) -> TileRow {
    struct Groups;
    impl ForPanelFormat for Groups {
        type Output = usize;
        fn run<F: PanelFormat>(self) -> usize {
            F::GROUPS
        }
    }
    match for_panel_format(format, Groups).expect("a quantised format") {
        1 => TileRow::Bytes32,
        _ => TileRow::Bytes16,
    }
}

impl<'x, T> FormatKernel for Int8Products<'_, T>
where
    T: Fn(usize) -> &'x [Int8Tile],
{
    fn format(&self) -> WeightFormat {
        self.format
    }

    fn plain<F: PanelFormat>(self) {
        unreachable!("without vectors there are no matrix units");
    }

    #[inline(always)]
    fn vectors<F: PanelFormat, S: PanelLanes>(mut self, lanes: S) {
        let blocks = (self.x)(0).len();
        assert_eq!(self.panel.len(), F::panel_bytes(blocks), "bytes of a panel");
        assert_eq!(<S::Floats as Lanes>::COUNT, PANEL_ROWS, "matrix units come with wide vectors");
        for first in (0..blocks).step_by(HEAD_BLOCKS) {
            let blocks = first..blocks.min(first + HEAD_BLOCKS);
            self.unpack::<S, F>(lanes, blocks.clone());
            for row in (0..self.rows).step_by(INT8_ROWS) {
                self.add_products::<S, F>(lanes, blocks.clone(), row);
            }
        }
    }
}

impl<'x, T> Int8Products<'_, T>
where
    T: Fn(usize) -> &'x [Int8Tile],
{
    #[inline(always)]
    fn unpack<S: PanelLanes, F: PanelFormat>(&mut self, lanes: S, blocks: Range<usize>) {
        let panel = PanelPointer { bytes: self.panel.as_ptr(), lane: 0 };
        for (block, out) in blocks.zip(&mut self.memory.weights) {
            for (i, out) in out.iter_mut().enumerate() {
                // SAFETY: the panel has the blocks, and an operand is 64 bytes.
                unsafe {
                    let bytes = panel.int8_operand::<S, F>(lanes, block, i);
                    lanes.store_ints(bytes, out.as_mut_ptr());
                }
            }
        }
    }

    /// Adds the products of eight rows from `row` on with the unpacked blocks to their sums. Rows
    /// that there are not are computed too, and never read.
    #[inline(always)]
    fn add_products<S: PanelLanes, F: PanelFormat>(
        &mut self,
        lanes: S,
        blocks: Range<usize>,
        row: usize,
    ) {
        let base = lanes.floats();
        let panel = PanelPointer { bytes: self.panel.as_ptr(), lane: 0 };
        let x = &(self.x)(row / INT8_ROWS)[blocks.clone()];
        let mut sums = [base.splat(0.0); INT8_ROWS];
        if 0 < blocks.start {
            for (m, sum) in sums.iter_mut().enumerate() {
                *sum = base.read(self.sums.get(row + m, self.side));
            }
        }
        // The matrix units are ahead by a few products, while vectors scale earlier ones.
        let count = blocks.len() * F::GROUPS;
        for i in 0..count + AHEAD {
            if i < count {
                self.multiply::<F>(x, i);
            }
            if (STORED_LATER..count + STORED_LATER).contains(&i) {
                self.store(i - STORED_LATER);
            }
            let Some(i) = i.checked_sub(AHEAD) else { continue };
            let (block, group) = (i / F::GROUPS, i % F::GROUPS);
            // What will be unpacked next arrives meanwhile.
            let next = F::block_at(blocks.start + HEAD_BLOCKS + block);
            for line in (group * 64..F::BLOCK_BYTES).step_by(F::GROUPS * 64) {
                base.prefetch(panel.bytes.wrapping_add(next + line));
            }
            // SAFETY: the panel has the block.
            let scale_and_least =
                unsafe { panel.scale_and_least::<S, F>(lanes, blocks.start + block, group) };
            let (x, products) = (&x[block], &self.memory.products[i % (AHEAD + 1)]);
            for m in 0..INT8_ROWS {
                // SAFETY: sixteen products are 64 bytes.
                let halves = unsafe {
                    [
                        lanes.load_ints(products[m].as_ptr().cast()),
                        lanes.load_ints(products[INT8_ROWS + m].as_ptr().cast()),
                    ]
                };
                let exact = join::<S, F>(lanes, halves, x.minus_sums[m][sums_of::<F>(group)]);
                let x = [x.scales[m], x.scaled_sums[m][sums_of::<F>(group)]];
                sums[m] = add_exact::<S, F>(lanes, exact, x, scale_and_least, sums[m]);
            }
        }
        for (m, sum) in sums.into_iter().enumerate() {
            base.write(sum, self.sums.get_mut(row + m, self.side));
        }
    }

    /// The exact products of eight rows with the `i`-th group of columns, in a tile of its own.
    #[inline(always)]
    fn multiply<F: PanelFormat>(&self, x: &[Int8Tile], i: usize) {
        let (block, group) = (i / F::GROUPS, i % F::GROUPS);
        let x = x[block].bytes.as_ptr().cast::<u8>().wrapping_add(group * 32 / F::GROUPS);
        let weights = &self.memory.weights[block][group * BYTE_OPERANDS / F::GROUPS..];
        let weights = weights.as_ptr().cast();
        // SAFETY: the tile's columns of the group, and as many of its weights.
        unsafe {
            match i % 4 {
                0 => self.tiles.multiply_int8::<0, 4, 6>(x, weights),
                1 => self.tiles.multiply_int8::<1, 5, 7>(x, weights),
                2 => self.tiles.multiply_int8::<2, 4, 6>(x, weights),
                _ => self.tiles.multiply_int8::<3, 5, 7>(x, weights),
            }
        }
    }

    /// Puts the `i`-th products where they can be read.
    #[inline(always)]
    fn store(&mut self, i: usize) {
        let out = self.memory.products[i % (AHEAD + 1)].as_mut_ptr().cast();
        // SAFETY: a tile's place.
        unsafe {
            match i % 4 {
                0 => self.tiles.store::<0>(out, 64),
                1 => self.tiles.store::<1>(out, 64),
                2 => self.tiles.store::<2>(out, 64),
                _ => self.tiles.store::<3>(out, 64),
            }
        }
    }
}

impl Tiles<'_> {
    /// `SUM = x * weights` · x: sixteen rows, 32 bytes apart
    ///
    /// # Safety
    /// Tiles of the configured sizes lie there.
    #[inline(always)]
    unsafe fn multiply_int8<const SUM: u8, const A: u8, const B: u8>(
        self,
        x: *const u8,
        weights: *const u8,
    ) {
        self.zero::<SUM>();
        // SAFETY: the caller's contract.
        unsafe {
            self.load::<A>(x, 32);
            self.load::<B>(weights, 64);
        }
        self.dot_int8::<SUM, A, B>();
    }
}
