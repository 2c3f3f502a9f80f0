//! What a page of a group of layers holds.

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
