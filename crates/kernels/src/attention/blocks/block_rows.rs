//! Where the rows of a block lie, and how their numbers come into vectors.

use std::marker::PhantomData;
use std::ops::Range;

use super::BLOCK_KEYS;
use crate::cpu::lanes::{CACHE_LINE, Lanes};
use crate::tiles::Row;

/// How the numbers of a row are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowType {
    F32,
    F16,
    Bf16,
}

impl RowType {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            RowType::F32 => 4,
            RowType::F16 | RowType::Bf16 => 2,
        }
    }
}

/// Keys, or values, of one block: rows of equally many numbers, which may lie anywhere.
pub(crate) struct BlockRows<'a> {
    kind: RowType,
    dim: usize,
    count: usize,
    /// Where each row starts; `dim` numbers lie there, for `'a`.
    starts: [*const u8; BLOCK_KEYS],
    rows: PhantomData<&'a [u8]>,
}

impl<'a> BlockRows<'a> {
    pub(crate) fn new(kind: RowType, dim: usize) -> Self {
        BlockRows { kind, dim, count: 0, starts: [std::ptr::null(); BLOCK_KEYS], rows: PhantomData }
    }

    /// Rows that were widened: `[_, dim]`
    pub(crate) fn of_wide(rows: &'a [f32], dim: usize) -> Self {
        let mut block = BlockRows::new(RowType::F32, dim);
        // SAFETY: an f32 is four bytes.
        block.extend(unsafe { rows.align_to().1 });
        block
    }

    pub(crate) fn kind(&self) -> RowType {
        self.kind
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds rows that lie one after the other.
    #[inline]
    pub(crate) fn extend(&mut self, rows: &'a [u8]) {
        let row_bytes = self.dim * self.kind.bytes();
        let count = rows.len() / row_bytes;
        let starts = &mut self.starts[self.count..self.count + count];
        for (i, start) in starts.iter_mut().enumerate() {
            *start = rows.as_ptr().wrapping_add(i * row_bytes);
        }
        self.count += count;
    }

    /// Asks for some numbers of a row, if there is such a row.
    #[inline(always)]
    pub(super) fn prefetch<L: Lanes>(&self, lanes: L, row: usize, numbers: Range<usize>) {
        if row < self.count {
            let start = self.starts[row].wrapping_add(numbers.start * self.kind.bytes());
            let bytes = numbers.len() * self.kind.bytes();
            // Most rows are two lines, which need no loop.
            lanes.prefetch(start);
            if CACHE_LINE < bytes {
                lanes.prefetch(start.wrapping_add(CACHE_LINE));
                let rest = bytes.saturating_sub(2 * CACHE_LINE);
                lanes.prefetch_bytes(start.wrapping_add(2 * CACHE_LINE), rest);
            }
        }
    }

    /// # Safety
    /// `N` is the rows' [`kind`](Self::kind), and there are more than `row` of them.
    #[inline(always)]
    pub(super) unsafe fn row<N: Numbers>(&self, row: usize) -> BlockRow<'a, N> {
        debug_assert!(N::KIND == self.kind && row < self.count, "row {row} of {}", self.count);
        BlockRow { start: self.starts[row], dim: self.dim, numbers: PhantomData }
    }
}

/// A [`RowType`] as a type.
pub(super) trait Numbers: Copy {
    const KIND: RowType;
    /// # Safety
    /// `COUNT` numbers can be read at `from`, which need not be aligned.
    unsafe fn load<L: Lanes>(lanes: L, from: *const u8) -> L::Vector;
}

#[derive(Clone, Copy)]
pub(super) struct F32s;
#[derive(Clone, Copy)]
pub(super) struct F16s;
#[derive(Clone, Copy)]
pub(super) struct Bf16s;

impl Numbers for F32s {
    const KIND: RowType = RowType::F32;
    #[inline(always)]
    unsafe fn load<L: Lanes>(lanes: L, from: *const u8) -> L::Vector {
        // SAFETY: the caller's contract.
        unsafe { lanes.load(from.cast()) }
    }
}

impl Numbers for F16s {
    const KIND: RowType = RowType::F16;
    #[inline(always)]
    unsafe fn load<L: Lanes>(lanes: L, from: *const u8) -> L::Vector {
        // SAFETY: the caller's contract.
        unsafe { lanes.load_f16(from) }
    }
}

impl Numbers for Bf16s {
    const KIND: RowType = RowType::Bf16;
    #[inline(always)]
    unsafe fn load<L: Lanes>(lanes: L, from: *const u8) -> L::Vector {
        // SAFETY: the caller's contract.
        unsafe { lanes.load_bf16(from) }
    }
}

/// One row of a block: `dim` numbers of kind `N` lie at its start.
#[derive(Clone, Copy)]
pub(super) struct BlockRow<'a, N> {
    start: *const u8,
    dim: usize,
    numbers: PhantomData<(&'a [u8], N)>,
}

impl<N: Numbers> Row for BlockRow<'_, N> {
    #[inline(always)]
    fn len(self) -> usize {
        self.dim
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(self, lanes: L, at: usize, count: usize) -> L::Vector {
        // SAFETY: the caller's contract: these numbers are in the row.
        unsafe {
            let from = self.start.add(at * N::KIND.bytes());
            if count == L::COUNT {
                return N::load(lanes, from);
            }
            // Zeros are 0 in every kind; a vector has at most sixteen numbers of four bytes.
            let mut filled_up = [0u8; 64];
            from.copy_to_nonoverlapping(filled_up.as_mut_ptr(), count * N::KIND.bytes());
            N::load(lanes, filled_up.as_ptr())
        }
    }
}
