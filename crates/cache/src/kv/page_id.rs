//! Names of physical locations: a page of the device or of the store, and one token's slot.

use std::fmt::Debug;
use std::hash::Hash;

/// A number that names a page inside one pool.
pub trait PageNumber: Copy + Ord + Hash + Debug {
    fn from_index(index: usize) -> Self;

    fn index(self) -> usize;
}

/// A physical page. All pages of a pool have the same number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// A page of the store. It has as many bytes as a page of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorePageId(pub u32);

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

impl StorePageId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PageNumber for PageId {
    fn from_index(index: usize) -> Self {
        PageId(u32::try_from(index).expect("page ids are 32 bits wide"))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl PageNumber for StorePageId {
    fn from_index(index: usize) -> Self {
        StorePageId(u32::try_from(index).expect("page ids are 32 bits wide"))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl SlotId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
