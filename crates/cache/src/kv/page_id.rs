//! Names of physical locations: a page, and one token's slot in it.

/// A physical page. All pages of a pool have the same number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// The location of one token's keys and values: `page * page_tokens + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

impl PageId {
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot `offset` tokens into this page.
    pub fn slot(self, offset: usize, page_tokens: usize) -> SlotId {
        assert!(offset < page_tokens, "slot {offset} of a page of {page_tokens}");
        let slot = self.index() * page_tokens + offset;
        SlotId(u32::try_from(slot).expect("KvSpace::new bounds the number of slots"))
    }
}

impl SlotId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
