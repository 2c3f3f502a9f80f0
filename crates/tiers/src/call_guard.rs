//! Breakers around the calls of something that may fail, and what became of these.
//!
//! Reading and writing have a breaker each: what is full or read-only goes on giving what it has.
//! One line is logged when a breaker opens and one when it closes; everything else is counted.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::circuit_breaker::{BreakerChange, BreakerConfig, CircuitBreaker, Permit};
use crate::tier_error::TierError;

pub struct CallGuard {
    /// In logs: "the disk tier".
    name: String,
    /// Where the breakers' time begins.
    started: Instant,
    books: Mutex<Books>,
}

struct Books {
    reads: CircuitBreaker,
    writes: CircuitBreaker,
    counters: CallCounters,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Reads,
    Writes,
}

/// What has become of calls since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounters {
    /// Calls that failed, by [`TierError::KINDS`].
    pub errors: [u64; TierError::KINDS.len()],
    /// Calls that a breaker refused.
    pub refused: u64,
    /// How often a breaker has opened.
    pub opened: u64,
    /// In calls that went through, of all threads together.
    pub read_us: u64,
    pub write_us: u64,
    /// Whether a breaker refuses calls now.
    pub reads_are_refused: bool,
    pub writes_are_refused: bool,
}

impl CallGuard {
    pub fn new(name: String, breaker: BreakerConfig) -> Self {
        let [reads, writes] = [(); 2].map(|()| CircuitBreaker::new(breaker));
        let books = Mutex::new(Books { reads, writes, counters: CallCounters::default() });
        CallGuard { name, started: Instant::now(), books }
    }

    pub fn counters(&self) -> CallCounters {
        let books = self.lock();
        CallCounters {
            reads_are_refused: books.reads.is_open(),
            writes_are_refused: books.writes.is_open(),
            ..books.counters
        }
    }

    /// One call, if the breaker lets it through.
    pub fn call<T>(
        &self,
        side: Side,
        work: impl FnOnce() -> Result<T, TierError>,
    ) -> Result<T, TierError> {
        let permit = {
            let mut books = self.lock();
            let permit = books.breaker(side).permit(self.now_ms());
            books.counters.refused += u64::from(permit == Permit::Refused);
            permit
        };
        if permit == Permit::Refused {
            let name = &self.name;
            let what = format!("{name} keeps failing and is left alone for a while; see the log");
            return Err(TierError::Unavailable(what));
        }
        let begun = Instant::now();
        let result = work();
        let spent_us = begun.elapsed().as_micros() as u64;
        let mut books = self.lock();
        match side {
            Side::Reads => books.counters.read_us += spent_us,
            Side::Writes => books.counters.write_us += spent_us,
        }
        if let Err(error) = &result {
            books.counters.errors[error.kind_index()] += 1;
        }
        let change = books.breaker(side).report(permit, result.is_ok(), self.now_ms());
        books.counters.opened += u64::from(matches!(change, BreakerChange::Opened { .. }));
        drop(books);
        self.log(side, change, result.as_ref().err());
        result
    }

    fn log(&self, side: Side, change: BreakerChange, error: Option<&TierError>) {
        let side = match side {
            Side::Reads => "reading from",
            Side::Writes => "writing to",
        };
        let name = &self.name;
        match (change, error) {
            (BreakerChange::Opened { wait_ms }, Some(error)) => tracing::warn!(
                "no more {side} {name} until it answers; trial in {wait_ms} ms: {error}"
            ),
            (BreakerChange::Closed, _) => tracing::info!("{side} {name} again"),
            (_, Some(error)) => tracing::debug!("{side} {name}: {error}"),
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

impl Books {
    fn breaker(&mut self, side: Side) -> &mut CircuitBreaker {
        match side {
            Side::Reads => &mut self.reads,
            Side::Writes => &mut self.writes,
        }
    }
}
