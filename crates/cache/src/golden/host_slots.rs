//! Pages of slots on the host: what lies in each slot.

use terrace_kernels::SlotLayout;

#[derive(Clone, Debug, PartialEq)]
pub struct HostSlots {
    pub(super) layout: SlotLayout,
    /// Physical page of each logical one, a run of `table_pages` for each sequence.
    pub(super) tables: Vec<i32>,
    pub(super) table_pages: usize,
    /// Of each sequence.
    pub(super) slots: usize,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotAt {
    pub seq: usize,
    pub layer: usize,
    pub head: usize,
    pub slot: usize,
}

/// What lies beside each other for all slots of a page's layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotArray {
    Keys,
    KeyScales,
    Values,
    ValueScales,
    Positions,
    Scores,
    ValueNorms,
    Errors,
}

impl HostSlots {
    pub(super) fn bytes(&self, at: SlotAt, array: SlotArray) -> &[u8] {
        &self.bytes[self.range(at, array)]
    }

    pub(super) fn bytes_mut(&mut self, at: SlotAt, array: SlotArray) -> &mut [u8] {
        let range = self.range(at, array);
        &mut self.bytes[range]
    }

    pub fn position(&self, at: SlotAt) -> i32 {
        i32::from_le_bytes(self.word(at, SlotArray::Positions))
    }

    /// A score, a norm or an error.
    pub fn note(&self, at: SlotAt, array: SlotArray) -> f32 {
        f32::from_le_bytes(self.word(at, array))
    }

    pub(super) fn set_note(&mut self, at: SlotAt, array: SlotArray, number: f32) {
        self.bytes_mut(at, array).copy_from_slice(&number.to_le_bytes());
    }

    pub(super) fn seqs(&self) -> usize {
        self.tables.len() / self.table_pages
    }

    /// A key or a value.
    pub fn row(&self, at: SlotAt, array: SlotArray) -> Vec<f32> {
        let SlotLayout { keys, values, key_dim, value_dim, .. } = self.layout;
        let (format, dim, scales) = match array {
            SlotArray::Keys => (keys, key_dim, SlotArray::KeyScales),
            SlotArray::Values => (values, value_dim, SlotArray::ValueScales),
            other => panic!("{other:?} are no rows"),
        };
        let mut row = vec![0.0; dim];
        format.decode(self.bytes(at, array), self.bytes(at, scales), &mut row);
        row
    }

    /// Writes a row of numbers into pages that have them as they are.
    pub(super) fn set_plain_row(&mut self, at: SlotAt, array: SlotArray, row: &[f32]) {
        let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.bytes_mut(at, array).copy_from_slice(&bytes);
    }

    fn word(&self, at: SlotAt, array: SlotArray) -> [u8; 4] {
        self.bytes(at, array).try_into().expect("four bytes of a slot")
    }

    fn range(&self, at: SlotAt, array: SlotArray) -> std::ops::Range<usize> {
        let SlotLayout { page_slots, kv_heads, keys, values, key_dim, value_dim, .. } = self.layout;
        assert!(at.head < kv_heads, "head {} of {kv_heads}", at.head);
        let offsets = self.layout.offsets(at.layer);
        let (start, bytes) = match array {
            SlotArray::Keys => (offsets.keys, keys.row_bytes(key_dim)),
            SlotArray::KeyScales => (offsets.key_scales, keys.scale_bytes()),
            SlotArray::Values => (offsets.values, values.row_bytes(value_dim)),
            SlotArray::ValueScales => (offsets.value_scales, values.scale_bytes()),
            SlotArray::Positions => (offsets.positions, size_of::<i32>()),
            SlotArray::Scores => (offsets.scores, size_of::<f32>()),
            SlotArray::ValueNorms => (offsets.value_norms, size_of::<f32>()),
            SlotArray::Errors => (offsets.errors, size_of::<f32>()),
        };
        let page = self.tables[at.seq * self.table_pages + at.slot / page_slots] as usize;
        let in_page = start + (at.head * page_slots + at.slot % page_slots) * bytes;
        let start = page * self.layout.page_bytes() + in_page;
        start..start + bytes
    }
}
