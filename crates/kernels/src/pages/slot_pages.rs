//! One head of one sequence in one layer, on the host: its slots' bytes by slot number.

use std::ops::Range;

use terrace_device::SharedRows;

use crate::pages::row_format::RowFormat;
use crate::pages::slot_layout::{SlotLayout, SlotOffsets};

/// Whoever makes one promises that, while it lives, nobody else writes these slots of this head and
/// layer, nor reads them if it writes.
pub(crate) struct SlotPages<'a> {
    pages: &'a SharedRows<'a, u8>,
    table: &'a [i32],
    layout: &'a SlotLayout,
    offsets: SlotOffsets,
    head: usize,
}

/// A number beside each slot.
#[derive(Clone, Copy)]
pub(crate) enum Note {
    Score,
    ValueNorm,
    Error,
}

#[derive(Clone, Copy)]
pub(crate) enum Side {
    Keys,
    Values,
}

/// Slots that lie one after the other in one page.
pub(crate) struct SlotRun {
    pub(crate) slots: Range<usize>,
    page: usize,
    /// Of the first in its page.
    offset: usize,
}

/// Bytes of an array in a page: where it starts, and how many a slot has.
#[derive(Clone, Copy)]
struct SlotArray {
    start: usize,
    slot_bytes: usize,
}

impl<'a> SlotPages<'a> {
    /// # Safety
    /// While it lives, nobody else writes the slots of this head and layer in these pages, nor
    /// reads them if they are written through this.
    pub(crate) unsafe fn new(
        pages: &'a SharedRows<'a, u8>,
        table: &'a [i32],
        layout: &'a SlotLayout,
        layer: usize,
        head: usize,
    ) -> Self {
        assert!(head < layout.kv_heads, "head {head} of {}", layout.kv_heads);
        SlotPages { pages, table, layout, offsets: layout.offsets(layer), head }
    }

    /// Slots cut where pages end.
    pub(crate) fn runs(&self, slots: Range<usize>) -> impl Iterator<Item = SlotRun> + use<'a> {
        let page_slots = self.layout.page_slots;
        let (mut start, mut offset) = (slots.start, slots.start % page_slots);
        let mut pages = self.table[slots.start / page_slots..].iter();
        std::iter::from_fn(move || {
            if start == slots.end {
                return None;
            }
            let run = start..slots.end.min(start + page_slots - offset);
            let page = *pages.next().expect("a page for each slot") as usize;
            let run = SlotRun { slots: run, page, offset };
            (start, offset) = (run.slots.end, 0);
            Some(run)
        })
    }

    pub(crate) fn format(&self, side: Side) -> RowFormat {
        match side {
            Side::Keys => self.layout.keys,
            Side::Values => self.layout.values,
        }
    }

    pub(crate) fn dim(&self, side: Side) -> usize {
        match side {
            Side::Keys => self.layout.key_dim,
            Side::Values => self.layout.value_dim,
        }
    }

    /// Rows and their scales, one after the other.
    pub(crate) fn rows(&self, side: Side, run: &SlotRun) -> (&'a [u8], &'a [u8]) {
        let [rows, scales] = self.row_arrays(side);
        (self.bytes(rows, run), self.bytes(scales, run))
    }

    /// Positions, each four bytes.
    pub(crate) fn positions(&self, run: &SlotRun) -> &'a [[u8; 4]] {
        self.bytes(self.position_array(), run).as_chunks().0
    }

    /// Numbers, each four bytes.
    pub(crate) fn notes(&self, note: Note, run: &SlotRun) -> &'a [[u8; 4]] {
        self.bytes(self.note_array(note), run).as_chunks().0
    }

    #[allow(clippy::mut_from_ref)]
    pub(crate) fn notes_mut(&self, note: Note, run: &SlotRun) -> &mut [[u8; 4]] {
        self.bytes_mut(self.note_array(note), run).as_chunks_mut().0
    }

    /// Whether there are such numbers.
    pub(crate) fn has(&self, note: Note) -> bool {
        let notes = &self.layout.notes;
        match note {
            Note::Score => notes.scores,
            Note::ValueNorm => notes.value_norms,
            Note::Error => notes.errors,
        }
    }

    pub(crate) fn position(&self, slot: usize) -> i32 {
        i32::from_le_bytes(self.positions(&self.one(slot))[0])
    }

    pub(crate) fn set_position(&self, slot: usize, position: i32) {
        let bytes = self.bytes_mut(self.position_array(), &self.one(slot));
        bytes.copy_from_slice(&position.to_le_bytes());
    }

    pub(crate) fn set_note(&self, note: Note, slot: usize, number: f32) {
        self.notes_mut(note, &self.one(slot))[0] = number.to_le_bytes();
    }

    /// Stores a row · row: `[dim]`
    #[inline(always)]
    pub(crate) fn store(&self, side: Side, slot: usize, row: &[f32]) {
        let [rows, scales] = self.row_arrays(side);
        let run = self.one(slot);
        let (numbers, scale) = (self.bytes_mut(rows, &run), self.bytes_mut(scales, &run));
        self.format(side).encode(row, numbers, scale);
    }

    /// Reads a row again · row: `[dim]`
    pub(crate) fn load(&self, side: Side, slot: usize, row: &mut [f32]) {
        let (numbers, scale) = self.rows(side, &self.one(slot));
        self.format(side).decode(numbers, scale, row);
    }

    /// Of rows, and of their scales.
    #[inline]
    fn row_arrays(&self, side: Side) -> [SlotArray; 2] {
        let (format, dim) = (self.format(side), self.dim(side));
        let (rows, scales) = match side {
            Side::Keys => (self.offsets.keys, self.offsets.key_scales),
            Side::Values => (self.offsets.values, self.offsets.value_scales),
        };
        [
            SlotArray { start: rows, slot_bytes: format.row_bytes(dim) },
            SlotArray { start: scales, slot_bytes: format.scale_bytes() },
        ]
    }

    fn position_array(&self) -> SlotArray {
        SlotArray { start: self.offsets.positions, slot_bytes: size_of::<i32>() }
    }

    #[inline]
    fn note_array(&self, note: Note) -> SlotArray {
        assert!(self.has(note), "pages without such notes");
        let start = match note {
            Note::Score => self.offsets.scores,
            Note::ValueNorm => self.offsets.value_norms,
            Note::Error => self.offsets.errors,
        };
        SlotArray { start, slot_bytes: size_of::<f32>() }
    }

    fn one(&self, slot: usize) -> SlotRun {
        let page_slots = self.layout.page_slots;
        let page = self.table[slot / page_slots] as usize;
        SlotRun { slots: slot..slot + 1, page, offset: slot % page_slots }
    }

    #[inline]
    fn bytes(&self, array: SlotArray, run: &SlotRun) -> &'a [u8] {
        // SAFETY: nobody else writes this head's slots, as `new` demands, and no slice to write
        // outlives the method that asked for it or the borrow of `self`.
        unsafe { self.pages.part(run.page, self.range(array, run)) }
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes_mut(&self, array: SlotArray, run: &SlotRun) -> &mut [u8] {
        // SAFETY: nobody else touches this head's slots, as `new` demands; callers hold one of
        // these slices for each of the arrays at most, and none that reads it.
        unsafe { self.pages.part_mut(run.page, self.range(array, run)) }
    }

    /// Where in their page the bytes of some slots are.
    #[inline]
    fn range(&self, array: SlotArray, run: &SlotRun) -> Range<usize> {
        let first = self.head * self.layout.page_slots + run.offset;
        let start = array.start + first * array.slot_bytes;
        start..start + run.slots.len() * array.slot_bytes
    }
}
