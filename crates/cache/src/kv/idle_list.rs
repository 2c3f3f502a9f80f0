//! Pages in the order in which their last user left them: a linked list through page ids.
//!
//! Every operation is O(1) and allocates nothing. A page is in the list at most once.

use crate::kv::PageId;

/// No page: ends of the list, and links of pages outside it.
const NONE: u32 = u32::MAX;

pub(crate) struct IdleList {
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
    listed: bool,
}

impl IdleList {
    /// An empty list for pages `0..pages`.
    pub(crate) fn new(pages: usize) -> Self {
        let link = Link { older: NONE, newer: NONE, listed: false };
        IdleList { links: vec![link; pages], oldest: NONE, newest: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, page: PageId) -> bool {
        self.links[page.index()].listed
    }

    pub(crate) fn oldest(&self) -> Option<PageId> {
        (self.oldest != NONE).then_some(PageId(self.oldest))
    }

    pub(crate) fn push_newest(&mut self, page: PageId) {
        assert!(!self.contains(page), "page {} is idle already", page.0);
        self.links[page.index()] = Link { older: self.newest, newer: NONE, listed: true };
        match self.newest {
            NONE => self.oldest = page.0,
            newest => self.links[newest as usize].newer = page.0,
        }
        self.newest = page.0;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, page: PageId) {
        let Link { older, newer, listed } = self.links[page.index()];
        assert!(listed, "page {} is not idle", page.0);
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        self.links[page.index()].listed = false;
        self.len -= 1;
    }

    /// Walks the list both ways round: every link has its counterpart.
    pub(crate) fn check(&self) {
        let (mut count, mut older, mut at) = (0, NONE, self.oldest);
        while at != NONE {
            let link = self.links[at as usize];
            assert!(link.listed && link.older == older, "page {at} is badly linked");
            count += 1;
            assert!(count <= self.links.len(), "the idle list is a ring");
            (older, at) = (at, link.newer);
        }
        assert_eq!(older, self.newest, "the newest idle page is not the last");
        assert_eq!(count, self.len, "idle pages listed and counted");
        let listed = self.links.iter().filter(|link| link.listed).count();
        assert_eq!(count, listed, "idle pages listed and marked");
    }
}
