//! The bytes of a group's cache format, as keys of content hold them.
//!
//! Counts are u64, little-endian; a kind is one byte. An optional field is a byte, 0 or 1, and the
//! field where it is 1.
//!
//! 1. version: one byte, 1
//! 2. layers: their number, then the index of each, all u64
//! 3. format, by its kind:
//!    - 1, pages that keep every token: layers, kv heads, tokens of a page, elements of a key and
//!      of a value as u64; the type of numbers (0 f32, 1 f16, 2 bf16, 3 fp8 e4m3, 4 fp8 e5m2)
//!    - 2, pages of slots: layers, kv heads, slots of a page, elements of a key and of a value as
//!      u64; the formats of keys and of values (0 f32, 1 f16, 2 bf16, quantised: 16 asymmetric
//!      8-bit, 17 asymmetric 4-bit, 18 dynamic 8-bit, 19 float 4-bit, 20 fp8); three bytes, 0 or 1:
//!      whether scores, norms of values and errors lie beside them
//! 4. optional window: u64

use terrace_device::DType;
use terrace_kernels::{KvLayout, PageLayout, Quantiser, RowFormat, SlotLayout, SlotNotes};

use crate::kv::KvGroup;

const VERSION: u8 = 1;

impl KvGroup {
    /// What the bytes of its pages mean, as these bytes.
    pub fn format_bytes(&self) -> Vec<u8> {
        group_bytes(self)
    }
}

pub(super) fn group_bytes(group: &KvGroup) -> Vec<u8> {
    let KvGroup { layers, layout, window } = group;
    let mut out = vec![VERSION];
    add_counts(&mut out, &[layers.len()]);
    add_counts(&mut out, layers);
    match layout {
        KvLayout::Dense(layout) => {
            let PageLayout { layers, kv_heads, page_tokens, key_dim, value_dim, dtype } = *layout;
            out.push(1);
            add_counts(&mut out, &[layers, kv_heads, page_tokens, key_dim, value_dim]);
            out.push(dtype_kind(dtype));
        }
        KvLayout::Slots(layout) => {
            let SlotLayout { layers, kv_heads, page_slots, key_dim, value_dim, .. } = *layout;
            let SlotLayout { keys, values, notes, .. } = *layout;
            let SlotNotes { scores, value_norms, errors } = notes;
            out.push(2);
            add_counts(&mut out, &[layers, kv_heads, page_slots, key_dim, value_dim]);
            out.extend([keys, values].map(row_kind));
            out.extend([scores, value_norms, errors].map(u8::from));
        }
    }
    out.push(u8::from(window.is_some()));
    add_counts(&mut out, window.as_slice());
    out
}

fn add_counts(out: &mut Vec<u8>, counts: &[usize]) {
    out.extend(counts.iter().flat_map(|count| (*count as u64).to_le_bytes()));
}

fn dtype_kind(dtype: DType) -> u8 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Bf16 => 2,
        DType::F8E4m3 => 3,
        DType::F8E5m2 => 4,
        DType::I8 => 5,
        DType::I32 | DType::I64 | DType::U8 => panic!("pages of {}", dtype.name()),
    }
}

fn row_kind(format: RowFormat) -> u8 {
    match format {
        RowFormat::F32 => 0,
        RowFormat::F16 => 1,
        RowFormat::Bf16 => 2,
        RowFormat::Quantised(Quantiser::Asymmetric8) => 16,
        RowFormat::Quantised(Quantiser::Asymmetric4) => 17,
        RowFormat::Quantised(Quantiser::Dynamic8) => 18,
        RowFormat::Quantised(Quantiser::Float4) => 19,
        RowFormat::Quantised(Quantiser::Fp8) => 20,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENSE: PageLayout = PageLayout {
        layers: 2,
        kv_heads: 3,
        page_tokens: 16,
        key_dim: 64,
        value_dim: 65,
        dtype: DType::Bf16,
    };
    const SLOTS: SlotLayout = SlotLayout {
        layers: 1,
        kv_heads: 3,
        page_slots: 7,
        key_dim: 64,
        value_dim: 65,
        keys: RowFormat::Quantised(Quantiser::Asymmetric4),
        values: RowFormat::F16,
        notes: SlotNotes { scores: true, value_norms: false, errors: true },
    };

    fn dense() -> KvGroup {
        KvGroup { layers: vec![0, 5], layout: KvLayout::Dense(DENSE), window: Some(258) }
    }

    fn slots() -> KvGroup {
        KvGroup { layers: vec![5], layout: KvLayout::Slots(SLOTS), window: None }
    }

    #[track_caller]
    fn check(group: &KvGroup, want: &[&str]) {
        let found: String = group_bytes(group).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, want.concat().replace(' ', ""));
    }

    /// Each line is a point of the module comment.
    #[test]
    fn groups_have_the_bytes_that_are_documented() {
        let shape = "0300000000000000 1000000000000000 4000000000000000 4100000000000000";
        let dense_lines = [
            "01",
            "0200000000000000 0000000000000000 0500000000000000",
            "01 0200000000000000",
            shape,
            "02",
            "01 0201000000000000",
        ];
        check(&dense(), &dense_lines);
        let shape = "0300000000000000 0700000000000000 4000000000000000 4100000000000000";
        let slots_lines = [
            "01",
            "0100000000000000 0500000000000000",
            "02 0100000000000000",
            shape,
            "11 01",
            "01 00 01",
            "00",
        ];
        check(&slots(), &slots_lines);
    }

    #[test]
    fn every_field_changes_the_bytes() {
        let page = |change: fn(&mut PageLayout)| {
            let mut layout = DENSE;
            change(&mut layout);
            KvGroup { layout: KvLayout::Dense(layout), ..dense() }
        };
        let slot = |change: fn(&mut SlotLayout)| {
            let mut layout = SLOTS;
            change(&mut layout);
            KvGroup { layout: KvLayout::Slots(layout), ..slots() }
        };
        let mut groups = vec![
            dense(),
            KvGroup { layers: vec![0, 4], ..dense() },
            KvGroup { layers: vec![0, 4, 5], ..dense() },
            KvGroup { window: None, ..dense() },
            KvGroup { window: Some(257), ..dense() },
            page(|layout| layout.layers += 1),
            page(|layout| layout.kv_heads += 1),
            page(|layout| layout.page_tokens += 1),
            page(|layout| layout.key_dim += 1),
            page(|layout| layout.value_dim += 1),
            slots(),
            slot(|layout| layout.layers += 1),
            slot(|layout| layout.kv_heads += 1),
            slot(|layout| layout.page_slots += 1),
            slot(|layout| layout.key_dim += 1),
            slot(|layout| layout.value_dim += 1),
            slot(|layout| layout.notes.scores = false),
            slot(|layout| layout.notes.value_norms = true),
            slot(|layout| layout.notes.errors = false),
        ];
        for dtype in [DType::F32, DType::F16, DType::F8E4m3, DType::F8E5m2] {
            let layout = KvLayout::Dense(PageLayout { dtype, ..DENSE });
            groups.push(KvGroup { layout, ..dense() });
        }
        let plain = [RowFormat::F32, RowFormat::F16, RowFormat::Bf16];
        for format in plain.into_iter().chain(Quantiser::ALL.map(RowFormat::Quantised)) {
            for layout in
                [SlotLayout { keys: format, ..SLOTS }, SlotLayout { values: format, ..SLOTS }]
            {
                let group = KvGroup { layout: KvLayout::Slots(layout), ..slots() };
                if group != slots() {
                    groups.push(group);
                }
            }
        }
        for (i, group) in groups.iter().enumerate() {
            let same = groups[..i].iter().find(|other| group_bytes(other) == group_bytes(group));
            assert_eq!(same, None, "{group:?}");
        }
    }
}
