//! What an engine may take of its card: a share while it starts, an arena when it runs.
//!
//! Weights, workspaces and pages are taken from the driver while the engine starts, within its
//! share of the card. Then a block is reserved, and whatever is loaded later comes out of it or is
//! refused: a request can neither fail a step for want of memory nor take what other engines on the
//! card count on.

use super::free_ranges::FreeRanges;
use crate::error::Error;

pub(super) struct DeviceBudget {
    /// Bytes that may be taken in all, the arena included.
    share: usize,
    /// Of the driver.
    taken: usize,
    arena: Option<Arena>,
}

struct Arena {
    address: u64,
    bytes: usize,
    free: FreeRanges,
}

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// To be asked for it.
    Driver,
    /// At this address.
    Arena(u64),
}

impl DeviceBudget {
    pub(super) fn new(share: usize) -> Self {
        DeviceBudget { share, taken: 0, arena: None }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Bytes of the share that are not taken.
    pub(super) fn left(&self) -> usize {
        self.share.saturating_sub(self.taken)
    }

    /// Charges bytes to the share, or takes them out of the arena.
    pub(super) fn take(&mut self, bytes: usize, what: &'static str) -> Result<Source, Error> {
        let Some(arena) = &mut self.arena else {
            if self.left() < bytes {
                let (share, taken) = (self.share, self.taken);
                return Err(Error::OverDeviceShare { bytes, what, share, taken });
            }
            self.taken += bytes;
            return Ok(Source::Driver);
        };
        match arena.free.take(bytes) {
            Some(start) => Ok(Source::Arena(arena.address + start as u64)),
            None => Err(Error::ArenaExhausted {
                bytes,
                what,
                free: arena.free.free_bytes(),
                arena: arena.bytes,
            }),
        }
    }

    pub(super) fn give_back(&mut self, source: Source, bytes: usize) {
        match (source, &mut self.arena) {
            (Source::Driver, _) => self.taken -= bytes,
            (Source::Arena(address), Some(arena)) => {
                arena.free.give_back((address - arena.address) as usize, bytes);
            }
            (Source::Arena(_), None) => unreachable!("an arena stays as long as its budget"),
        }
    }

    /// From now on everything comes out of this block, which the share has paid for.
    pub(super) fn reserve(&mut self, address: u64, bytes: usize) {
        assert!(self.arena.is_none(), "the arena is reserved once");
        self.arena = Some(Arena { address, bytes, free: FreeRanges::of_block(bytes) });
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.arena.is_some()
    }

    /// The block's address, if there is one to give back to the driver.
    pub(super) fn arena_address(&self) -> Option<u64> {
        self.arena.as_ref().filter(|arena| arena.bytes > 0).map(|arena| arena.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_stays_within_its_share() {
        let mut budget = DeviceBudget::new(1000);
        assert_eq!(budget.take(600, "weights").expect("it fits"), Source::Driver);
        let refused = budget.take(401, "kv pages").expect_err("more than is left").to_string();
        for number in ["401", "kv pages", "1000", "600"] {
            assert!(refused.contains(number), "{number}: {refused}");
        }
        assert_eq!((budget.taken(), budget.left()), (600, 400));
        budget.give_back(Source::Driver, 600);
        assert_eq!(budget.take(1000, "kv pages").expect("all of it"), Source::Driver);
    }

    #[test]
    fn what_comes_later_is_in_the_arena_or_refused_with_the_numbers() {
        let mut budget = DeviceBudget::new(10_000);
        budget.take(2048, "arena").expect("it fits");
        budget.reserve(1 << 20, 2048);
        let first = budget.take(1000, "weights of slots").expect("it fits");
        assert_eq!(first, Source::Arena(1 << 20));
        let second = budget.take(1024, "an adapter").expect("it fits");
        assert_eq!(second, Source::Arena((1 << 20) + 1024));
        let refused = budget.take(1, "a table").expect_err("all is taken").to_string();
        for number in ["1 bytes", "a table", "0 of 2048"] {
            assert!(refused.contains(number), "{number}: {refused}");
        }
        budget.give_back(first, 1000);
        assert_eq!(budget.take(1024, "a table").expect("it is free again"), first);
        assert_eq!(budget.taken(), 2048, "the driver gave the block alone");
    }

    #[test]
    fn an_empty_arena_refuses_everything() {
        let mut budget = DeviceBudget::new(usize::MAX);
        budget.reserve(0, 0);
        assert!(budget.take(1, "a table").is_err());
        assert_eq!(budget.arena_address(), None);
    }
}
