//! How pages hold slots whose tokens a policy chooses.
//!
//! A slot of a head holds a key, a value, the position of their token, and what a policy wants to
//! know. All of it lies in the page: a page is the whole state of its slots, and is copied, shared
//! or moved as one record. Within a page, for each layer of the group, these arrays follow each
//! other, each filled up to a multiple of 16 bytes; `[kv_heads, page_slots]` of:
//!
//! 1. keys, 2. their scales, 3. values, 4. their scales, 5. positions (i32, -1 where no token is),
//! 6. scores (f32), 7. norms of values (f32), 8. errors (f32); the last three where wanted.

use crate::pages::row_format::RowFormat;

/// What lies beside a slot's key, value and position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotNotes {
    pub scores: bool,
    pub value_norms: bool,
    pub errors: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotLayout {
    pub layers: usize,
    pub kv_heads: usize,
    pub page_slots: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub keys: RowFormat,
    pub values: RowFormat,
    pub notes: SlotNotes,
}

/// The keys, or the values, of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSide {
    pub format: RowFormat,
    pub dim: usize,
    /// Bytes from the page's start to the rows, and to their scales.
    pub rows: usize,
    pub scales: usize,
}

/// Bytes from a page's start to the arrays of one layer. Of an array that is not wanted, its end
/// is its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotOffsets {
    pub keys: usize,
    pub key_scales: usize,
    pub values: usize,
    pub value_scales: usize,
    pub positions: usize,
    pub scores: usize,
    pub value_norms: usize,
    pub errors: usize,
    end: usize,
}

/// Of every array in a page: kernels read 16 bytes at a time.
const ALIGNMENT: usize = 16;

impl SlotLayout {
    /// As many slots a page as fit into `page_bytes`; `None` where not even one does.
    pub fn fitting(self, page_bytes: usize) -> Option<SlotLayout> {
        // Filling up costs less than the last slot does, so the first guess is off by a few.
        let one = SlotLayout { page_slots: 1, ..self }.page_bytes();
        let fits = |slots: &usize| {
            let layout = SlotLayout { page_slots: *slots, ..self };
            layout.page_bytes() <= page_bytes
        };
        let lone = self.layers * self.kv_heads * self.slot_bytes();
        let most = page_bytes.checked_div(lone).filter(|_| one <= page_bytes)?;
        let page_slots = (1..=most).rev().find(fits)?;
        Some(SlotLayout { page_slots, ..self })
    }

    pub fn page_bytes(&self) -> usize {
        self.layers * self.offsets_of_first().end
    }

    pub fn offsets(&self, layer: usize) -> SlotOffsets {
        assert!(layer < self.layers, "layer {layer} of {}", self.layers);
        let first = self.offsets_of_first();
        let move_on = |offset: usize| layer * first.end + offset;
        SlotOffsets {
            keys: move_on(first.keys),
            key_scales: move_on(first.key_scales),
            values: move_on(first.values),
            value_scales: move_on(first.value_scales),
            positions: move_on(first.positions),
            scores: move_on(first.scores),
            value_norms: move_on(first.value_norms),
            errors: move_on(first.errors),
            end: move_on(first.end),
        }
    }

    /// Its keys and its values.
    pub fn sides(&self, layer: usize) -> [SlotSide; 2] {
        let SlotOffsets { keys, key_scales, values, value_scales, .. } = self.offsets(layer);
        [
            SlotSide { format: self.keys, dim: self.key_dim, rows: keys, scales: key_scales },
            SlotSide {
                format: self.values,
                dim: self.value_dim,
                rows: values,
                scales: value_scales,
            },
        ]
    }

    /// Bytes of one slot of one head of one layer.
    pub fn slot_bytes(&self) -> usize {
        self.array_bytes().iter().sum()
    }

    fn array_bytes(&self) -> [usize; 8] {
        let note = |wanted: bool| if wanted { size_of::<f32>() } else { 0 };
        [
            self.keys.row_bytes(self.key_dim),
            self.keys.scale_bytes(),
            self.values.row_bytes(self.value_dim),
            self.values.scale_bytes(),
            size_of::<i32>(),
            note(self.notes.scores),
            note(self.notes.value_norms),
            note(self.notes.errors),
        ]
    }

    fn offsets_of_first(&self) -> SlotOffsets {
        let mut end = 0;
        let starts = self.array_bytes().map(|bytes| {
            let start = end;
            end += (self.kv_heads * self.page_slots * bytes).next_multiple_of(ALIGNMENT);
            start
        });
        let [keys, key_scales, values, value_scales, positions, scores, value_norms, errors] =
            starts;
        SlotOffsets {
            keys,
            key_scales,
            values,
            value_scales,
            positions,
            scores,
            value_norms,
            errors,
            end,
        }
    }
}
