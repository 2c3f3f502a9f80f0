//! Who uses a page: any number of readers, or one writer.
//!
//! Unlike the standard library's, a hold borrows nothing, so it can live as long as a copy that a
//! GPU does in the background.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A writer in place of a count of readers.
const WRITER: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct PageLock {
    /// How many read, or [`WRITER`].
    holders: Mutex<u32>,
    released: Condvar,
}

/// What a hold is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Read,
    Write,
}

impl PageLock {
    /// Waits until nobody is in the way.
    pub(super) fn hold(&self, hold: Hold) {
        let mut holders = self.holders();
        while !grant(&mut holders, hold) {
            holders = self.released.wait(holders).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`hold`](Self::hold), or `false` at once.
    pub(super) fn try_hold(&self, hold: Hold) -> bool {
        grant(&mut self.holders(), hold)
    }

    pub(super) fn release(&self, hold: Hold) {
        let mut holders = self.holders();
        match hold {
            Hold::Read => *holders = holders.checked_sub(1).expect("a reader releases its hold"),
            Hold::Write => *holders = 0,
        }
        if *holders == 0 {
            self.released.notify_all();
        }
    }

    /// The count is right after every statement, so a panic elsewhere does not spoil it.
    fn holders(&self) -> MutexGuard<'_, u32> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn grant(holders: &mut u32, hold: Hold) -> bool {
    match (hold, *holders) {
        (Hold::Read, WRITER) => return false,
        (Hold::Read, readers) => *holders = readers + 1,
        (Hold::Write, 0) => *holders = WRITER,
        (Hold::Write, _) => return false,
    }
    true
}
