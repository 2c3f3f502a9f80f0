//! Keeps a row that was read before an update from being copied up after it.
//!
//! Whoever fills a faster level takes a ticket before it reads the slower ones, and writes through
//! the gate. An update says which keys it is about, writes the levels and goes through the gate
//! last, to write the hot caches. So a row whose key is being updated, or was after the ticket was
//! taken, is left out: it may be the old one, and the level that it goes to may have evicted the
//! new one already. Who is in the gate is alone there.

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
    /// How many updates under way keys are in.
    updating: HashMap<i64, usize>,
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
        let is_fresh = |key: &i64| {
            let was_updated = books.updated.get(key).is_some_and(|at| *at > ticket.epoch);
            !was_updated && !books.updating.contains_key(key)
        };
        let fresh: Vec<bool> = keys.iter().map(is_fresh).collect();
        books.end(&ticket);
        write(&fresh)
    }

    /// A fill comes to nothing.
    pub fn drop_fill(&self, ticket: FillTicket) {
        self.lock().end(&ticket);
    }

    /// Before the levels are written.
    pub fn begin_update(&self, keys: &[i64]) {
        let mut books = self.lock();
        keys.iter().for_each(|key| *books.updating.entry(*key).or_default() += 1);
    }

    /// An update did not reach all levels; it comes again.
    pub fn drop_update(&self, keys: &[i64]) {
        self.lock().end_update(keys);
    }

    /// After the levels were written.
    pub fn finish_update<T>(&self, keys: &[i64], write: impl FnOnce() -> T) -> T {
        let mut books = self.lock();
        books.end_update(keys);
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
    fn end_update(&mut self, keys: &[i64]) {
        for key in keys {
            let count = self.updating.get_mut(key).expect("an update ends once");
            *count -= 1;
            if *count == 0 {
                self.updating.remove(key);
            }
        }
    }

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

    fn update(gate: &FillGate, keys: &[i64]) {
        gate.begin_update(keys);
        gate.finish_update(keys, || ());
    }

    #[test]
    fn what_is_being_updated_is_left_out() {
        let gate = FillGate::default();
        let before = gate.begin_fill();
        gate.begin_update(&[1, 2]);
        gate.begin_update(&[2]);
        assert_eq!(fresh(&gate, before, &[1, 2, 3]), [false, false, true]);
        let meanwhile = gate.begin_fill();
        gate.drop_update(&[1, 2]);
        assert_eq!(fresh(&gate, meanwhile, &[1, 2, 3]), [true, false, true]);
        gate.finish_update(&[2], || ());
        let after = gate.begin_fill();
        assert_eq!(fresh(&gate, after, &[1, 2, 3]), [true; 3]);
        assert!(gate.lock().updating.is_empty());
    }

    #[test]
    fn what_was_updated_meanwhile_is_left_out() {
        let gate = FillGate::default();
        update(&gate, &[1, 2]);
        let first = gate.begin_fill();
        update(&gate, &[2, 3]);
        let second = gate.begin_fill();
        update(&gate, &[4]);
        assert_eq!(fresh(&gate, first, &[1, 2, 3, 4, 5]), [true, false, false, false, true]);
        assert_eq!(fresh(&gate, second, &[1, 2, 3, 4, 5]), [true, true, true, false, true]);
    }

    #[test]
    fn nothing_is_remembered_when_nobody_fills() {
        let gate = FillGate::default();
        let ticket = gate.begin_fill();
        update(&gate, &[1, 2, 3]);
        assert_eq!(gate.lock().updated.len(), 3);
        let later = gate.begin_fill();
        gate.drop_fill(ticket);
        assert!(gate.lock().updated.is_empty(), "nobody left began before");
        update(&gate, &[9]);
        gate.drop_fill(later);
        update(&gate, &[1]);
        let books = gate.lock();
        assert!(books.updated.is_empty() && books.fills.is_empty());
    }
}
