//! Keeps a row that was read before an update from being copied up after it.
//!
//! Whoever fills a faster level takes a ticket before it reads the slower ones, and writes through
//! the gate. An update writes the levels first and goes through the gate last, to write the hot
//! caches. So a row whose key was updated after the ticket was taken is left out: it may be the old
//! one. Who is in the gate is alone there.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct FillGate {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// Counts updates.
    epoch: u64,
    /// When keys were updated, as long as a fill may ask.
    updated: HashMap<i64, u64>,
    /// Fills under way, by when they began.
    fills: BTreeMap<u64, usize>,
}

/// Of a fill under way.
#[must_use]
#[derive(Debug)]
pub struct FillTicket {
    epoch: u64,
}

impl FillGate {
    /// Before the levels are read.
    pub fn begin_fill(&self) -> FillTicket {
        let mut books = self.lock();
        let epoch = books.epoch;
        *books.fills.entry(epoch).or_default() += 1;
        FillTicket { epoch }
    }

    /// Calls `write` with which keys have not been updated since the ticket was taken.
    pub fn finish_fill<T>(
        &self,
        ticket: FillTicket,
        keys: &[i64],
        write: impl FnOnce(&[bool]) -> T,
    ) -> T {
        let mut books = self.lock();
        let is_fresh = |key: &i64| books.updated.get(key).is_none_or(|at| *at <= ticket.epoch);
        let fresh: Vec<bool> = keys.iter().map(is_fresh).collect();
        books.end(&ticket);
        write(&fresh)
    }

    /// A fill comes to nothing.
    pub fn drop_fill(&self, ticket: FillTicket) {
        self.lock().end(&ticket);
    }

    /// After the levels were written.
    pub fn finish_update<T>(&self, keys: &[i64], write: impl FnOnce() -> T) -> T {
        let mut books = self.lock();
        books.epoch += 1;
        if !books.fills.is_empty() {
            let epoch = books.epoch;
            books.updated.extend(keys.iter().map(|key| (*key, epoch)));
        }
        write()
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn end(&mut self, ticket: &FillTicket) {
        let count = self.fills.get_mut(&ticket.epoch).expect("a fill ends once");
        *count -= 1;
        if *count == 0 {
            self.fills.remove(&ticket.epoch);
        }
        match self.fills.first_key_value() {
            None => self.updated.clear(),
            Some((oldest, _)) if *oldest > ticket.epoch => {
                let oldest = *oldest;
                self.updated.retain(|_, at| *at > oldest);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(gate: &FillGate, ticket: FillTicket, keys: &[i64]) -> Vec<bool> {
        gate.finish_fill(ticket, keys, <[bool]>::to_vec)
    }

    #[test]
    fn what_was_updated_meanwhile_is_left_out() {
        let gate = FillGate::default();
        gate.finish_update(&[1, 2], || ());
        let first = gate.begin_fill();
        gate.finish_update(&[2, 3], || ());
        let second = gate.begin_fill();
        gate.finish_update(&[4], || ());
        assert_eq!(fresh(&gate, first, &[1, 2, 3, 4, 5]), [true, false, false, false, true]);
        assert_eq!(fresh(&gate, second, &[1, 2, 3, 4, 5]), [true, true, true, false, true]);
    }

    #[test]
    fn nothing_is_remembered_when_nobody_fills() {
        let gate = FillGate::default();
        let ticket = gate.begin_fill();
        gate.finish_update(&[1, 2, 3], || ());
        assert_eq!(gate.lock().updated.len(), 3);
        let later = gate.begin_fill();
        gate.drop_fill(ticket);
        assert!(gate.lock().updated.is_empty(), "nobody left began before");
        gate.finish_update(&[9], || ());
        gate.drop_fill(later);
        gate.finish_update(&[1], || ());
        let books = gate.lock();
        assert!(books.updated.is_empty() && books.fills.is_empty());
    }
}
