//! One head of one sequence in one layer, on the host: its slots' bytes by slot number.

use std::ops::Range;

use terrace_device::SharedRows;

use crate::slot_layout::{SlotLayout, SlotPlaces};

/// Whoever makes one promises that, while it lives, nobody else touches these slots of this head
/// and layer.
pub(crate) struct SlotPages<'a> {
    pages: &'a SharedRows<'a, u8>,
    table: &'a [i32],
    layout: &'a SlotLayout,
    places: SlotPlaces,
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

impl<'a> SlotPages<'a> {
    /// # Safety
    /// While it lives, nobody else touches the slots of this head and layer in these pages.
    pub(crate) unsafe fn new(
        pages: &'a SharedRows<'a, u8>,
        table: &'a [i32],
        layout: &'a SlotLayout,
        layer: usize,
        head: usize,
    ) -> Self {
        assert!(head < layout.kv_heads, "head {head} of {}", layout.kv_heads);
        SlotPages { pages, table, layout, places: layout.places(layer), head }
    }

    pub(crate) fn position(&self, slot: usize) -> i32 {
        i32::from_le_bytes(*self.word(self.places.positions, slot))
    }

    pub(crate) fn set_position(&self, slot: usize, position: i32) {
        *self.word(self.places.positions, slot) = position.to_le_bytes();
    }

    pub(crate) fn note(&self, note: Note, slot: usize) -> f32 {
        f32::from_le_bytes(*self.word(self.note_place(note), slot))
    }

    pub(crate) fn set_note(&self, note: Note, slot: usize, number: f32) {
        *self.word(self.note_place(note), slot) = number.to_le_bytes();
    }

    /// Stores a row · row: `[dim]`
    pub(crate) fn store(&self, side: Side, slot: usize, row: &[f32]) {
        let (numbers, scale) = self.side(side, slot..slot + 1);
        match side {
            Side::Keys => self.layout.keys.encode(row, numbers, scale),
            Side::Values => self.layout.values.encode(row, numbers, scale),
        }
    }

    /// Reads a row again · row: `[dim]`
    pub(crate) fn load(&self, side: Side, slot: usize, row: &mut [f32]) {
        let (numbers, scale) = self.side(side, slot..slot + 1);
        match side {
            Side::Keys => self.layout.keys.decode(numbers, scale, row),
            Side::Values => self.layout.values.decode(numbers, scale, row),
        }
    }

    /// Rows and scales of slots of one page.
    #[allow(clippy::mut_from_ref)]
    fn side(&self, side: Side, slots: Range<usize>) -> (&'a mut [u8], &'a mut [u8]) {
        let (format, dim, rows, scales) = match side {
            Side::Keys => {
                let places = (self.places.keys, self.places.key_scales);
                (self.layout.keys, self.layout.key_dim, places.0, places.1)
            }
            Side::Values => {
                let places = (self.places.values, self.places.value_scales);
                (self.layout.values, self.layout.value_dim, places.0, places.1)
            }
        };
        let [rows, scales] = [(rows, format.row_bytes(dim)), (scales, format.scale_bytes())]
            .map(|(place, bytes)| self.bytes(place, bytes, slots.clone()));
        (rows, scales)
    }

    fn note_place(&self, note: Note) -> usize {
        let (wanted, place) = match note {
            Note::Score => (self.layout.notes.scores, self.places.scores),
            Note::ValueNorm => (self.layout.notes.value_norms, self.places.value_norms),
            Note::Error => (self.layout.notes.errors, self.places.errors),
        };
        assert!(wanted, "pages without such notes");
        place
    }

    #[allow(clippy::mut_from_ref)]
    fn word(&self, place: usize, slot: usize) -> &'a mut [u8; 4] {
        let bytes = self.bytes(place, size_of::<u32>(), slot..slot + 1);
        bytes.first_chunk_mut().expect("four bytes were taken")
    }

    /// Bytes of the array at `place` for slots of one page.
    #[allow(clippy::mut_from_ref)]
    fn bytes(&self, place: usize, slot_bytes: usize, slots: Range<usize>) -> &'a mut [u8] {
        let page_slots = self.layout.page_slots;
        let offset = slots.start % page_slots;
        assert!(offset + slots.len() <= page_slots, "slots {slots:?} in pages of {page_slots}");
        let page = self.table[slots.start / page_slots] as usize;
        let start = place + (self.head * page_slots + offset) * slot_bytes;
        // SAFETY: nobody else touches this head's slots, as `new` demands, and within this file no
        // two of these slices that overlap live at once.
        unsafe { self.pages.part_mut(page, start..start + slots.len() * slot_bytes) }
    }
}
