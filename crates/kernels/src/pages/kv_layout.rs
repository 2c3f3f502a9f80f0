//! What a page of a group of layers holds.

use std::ops::Range;

use terrace_device::ViewMut;

use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvLayout {
    /// Every token, at its place.
    Dense(PageLayout),
    /// Slots: quantised rows, or tokens that a policy has chosen.
    Slots(SlotLayout),
}

/// Which pages of a group of layers each sequence of a step holds. Groups share all pages there
/// are, so these are borrowed by one at a time, see [`GroupKv::with_pages`]; until then there are
/// none.
// A step has a few of them, and they never move far.
#[allow(clippy::large_enum_variant)]
pub enum GroupKv<'a> {
    Dense(PagedKv<'a>),
    Slots(SlotKv<'a>),
}

impl KvLayout {
    /// Tokens of a page.
    pub fn page_tokens(&self) -> usize {
        match self {
            KvLayout::Dense(layout) => layout.page_tokens,
            KvLayout::Slots(layout) => layout.page_slots,
        }
    }

    pub fn page_bytes(&self) -> usize {
        match self {
            KvLayout::Dense(layout) => layout.page_bytes(),
            KvLayout::Slots(layout) => layout.page_bytes(),
        }
    }

    /// Layers of the group.
    pub fn layers(&self) -> usize {
        match self {
            KvLayout::Dense(layout) => layout.layers,
            KvLayout::Slots(layout) => layout.layers,
        }
    }

    /// Where the bytes of some layers lie inside a page: in every layout they are one run, with
    /// all that belongs to a layer in it.
    #[track_caller]
    pub fn layer_bytes(&self, layers: Range<usize>) -> Range<usize> {
        let all = self.layers();
        assert!(layers.start <= layers.end && layers.end <= all, "layers {layers:?} of {all}");
        let layer_bytes = self.page_bytes() / all.max(1);
        layers.start * layer_bytes..layers.end * layer_bytes
    }
}

impl<'a> GroupKv<'a> {
    /// What stands for the pages until they are borrowed.
    pub fn no_pages() -> ViewMut<'a> {
        ViewMut::of::<u8>(&mut [], [0, 1])
    }

    /// The same with pages to read and write.
    pub fn with_pages<'p>(&'p mut self, pages: ViewMut<'p>) -> GroupKv<'p> {
        match self {
            GroupKv::Dense(kv) => GroupKv::Dense(PagedKv { pages, ..*kv }),
            GroupKv::Slots(kv) => {
                GroupKv::Slots(SlotKv { pages, slots: kv.slots.reborrow(), ..*kv })
            }
        }
    }

    pub fn layout(&self) -> KvLayout {
        match self {
            GroupKv::Dense(kv) => KvLayout::Dense(kv.layout),
            GroupKv::Slots(kv) => KvLayout::Slots(kv.layout),
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_device::DType;

    use super::*;
    use crate::pages::row_format::RowFormat;
    use crate::pages::slot_layout::SlotNotes;
    use crate::quantise::Quantiser;

    #[test]
    fn the_layers_of_a_page_lie_behind_each_other() {
        for dtype in [DType::Bf16, DType::F8E4m3] {
            let layout = PageLayout {
                layers: 3,
                kv_heads: 5,
                page_tokens: 7,
                key_dim: 6,
                value_dim: 10,
                dtype,
            };
            let group = KvLayout::Dense(layout);
            for layer in 0..3 {
                let bytes = group.layer_bytes(layer..layer + 1);
                assert_eq!(bytes.start, layout.key_offset(layer));
                assert!(bytes.contains(&layout.value_offset(layer)));
            }
            assert_eq!(group.layer_bytes(0..3), 0..layout.page_bytes());
            assert_eq!(group.layer_bytes(1..1).len(), 0);
        }
    }

    #[test]
    fn notes_of_slots_lie_within_their_layer() {
        let layout = SlotLayout {
            layers: 3,
            kv_heads: 5,
            page_slots: 7,
            key_dim: 6,
            value_dim: 10,
            keys: RowFormat::F16,
            values: RowFormat::Quantised(Quantiser::Asymmetric8),
            notes: SlotNotes { scores: true, value_norms: false, errors: true },
        };
        let group = KvLayout::Slots(layout);
        for layer in 0..3 {
            let (bytes, offsets) = (group.layer_bytes(layer..layer + 1), layout.offsets(layer));
            assert_eq!(bytes.start, offsets.keys);
            assert!(bytes.contains(&offsets.positions) && bytes.contains(&offsets.errors));
        }
        assert_eq!(group.layer_bytes(1..3).end, layout.page_bytes());
    }
}
