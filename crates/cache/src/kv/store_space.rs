//! Pages that have left the device, as decisions: which pages of the store are taken, and by how
//! many holders.
//!
//! The bytes are elsewhere. As with [`PagePool`](crate::PagePool), who holds a page is known to its
//! holders alone: what a sequence remembers, or a move that is under way.

/// A page of the store. It has as many bytes as a page of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorePageId(pub u32);

impl StorePageId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

pub struct StoreSpace {
    free: Vec<StorePageId>,
    holders: Vec<u32>,
}

impl StoreSpace {
    pub fn new(pages: usize) -> Self {
        let count = u32::try_from(pages).expect("page ids are 32 bits wide");
        StoreSpace { free: (0..count).rev().map(StorePageId).collect(), holders: vec![0; pages] }
    }

    pub fn total(&self) -> usize {
        self.holders.len()
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes so many pages, or none.
    pub fn take(&mut self, pages: usize) -> Option<Vec<StorePageId>> {
        let left = self.free.len().checked_sub(pages)?;
        let taken = self.free.split_off(left);
        for page in &taken {
            self.holders[page.index()] = 1;
        }
        Some(taken)
    }

    /// One more holder of pages that somebody holds.
    pub fn share(&mut self, pages: &[StorePageId]) {
        for page in pages {
            let holders = &mut self.holders[page.index()];
            assert!(0 < *holders, "store page {} is shared but free", page.0);
            *holders += 1;
        }
    }

    pub fn release(&mut self, pages: &[StorePageId]) {
        for page in pages {
            let holders = &mut self.holders[page.index()];
            assert!(0 < *holders, "store page {} released twice", page.0);
            *holders -= 1;
            if *holders == 0 {
                self.free.push(*page);
            }
        }
    }

    /// Panics unless every page has as many holders as name it in `held`, and is free if none does.
    pub fn check(&self, held: impl IntoIterator<Item = StorePageId>) {
        let mut holders = vec![0; self.total()];
        for page in held {
            holders[page.index()] += 1;
        }
        assert_eq!(self.holders, holders, "holders of the store's pages");
        let free = holders.iter().filter(|holders| **holders == 0).count();
        assert_eq!(self.free.len(), free, "free pages of the store");
        assert!(self.free.iter().all(|page| holders[page.index()] == 0), "a page is free and held");
    }
}
