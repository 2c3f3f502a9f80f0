//! Which pages move: those in host memory with the numbers of theirs on the device.

use terrace_device::cuda::{PageRead, PageWrite};

/// All in one direction. No page of the device is in it twice.
pub enum PageMoves {
    /// From host memory.
    In(Vec<(PageRead, usize)>),
    /// To host memory.
    Out(Vec<(PageWrite, usize)>),
}

impl PageMoves {
    pub fn len(&self) -> usize {
        match self {
            PageMoves::In(moves) => moves.len(),
            PageMoves::Out(moves) => moves.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a GPU sees each page of the host, and the number of the device's.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let (ins, outs) = match self {
            PageMoves::In(moves) => (Some(moves), None),
            PageMoves::Out(moves) => (None, Some(moves)),
        };
        let ins = ins.into_iter().flatten().map(|(host, page)| (host.device_address(), *page));
        let outs = outs.into_iter().flatten().map(|(host, page)| (host.device_address(), *page));
        ins.chain(outs)
    }

    /// Panics unless every page of the device is one of `pages` and has as many bytes as the
    /// host's.
    #[track_caller]
    pub(super) fn check(&self, pages: usize, page_bytes: usize) {
        let check = |bytes: usize, page: usize| {
            assert!(page < pages, "page {page} of {pages}");
            assert_eq!(bytes, page_bytes, "bytes of a page in host memory and on the device");
        };
        match self {
            PageMoves::In(moves) => moves.iter().for_each(|(host, page)| check(host.len(), *page)),
            PageMoves::Out(moves) => moves.iter().for_each(|(host, page)| check(host.len(), *page)),
        }
    }
}
