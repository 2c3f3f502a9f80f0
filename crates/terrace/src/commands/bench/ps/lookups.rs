//! Look-ups of drawn keys in batches, by some threads at once, and how fast they are.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::key_draw::KeyDraw;
use super::level_rows::check_rows;
use crate::commands::bench::spread::Spread;

/// Keys of each thread.
pub struct DrawnKeys {
    draw: KeyDraw,
    keys: Vec<Vec<i64>>,
}

#[derive(Clone, Copy)]
pub struct Lookups<'a> {
    pub draw: KeyDraw,
    /// Of each thread: at least one batch.
    keys: &'a [Vec<i64>],
    pub batch: usize,
    pub dim: usize,
}

/// Fills the rows of a batch and marks them as found · rows: `[keys, dim]` · found: `[keys]`
pub type Get<'a> = dyn Fn(&[i64], &mut [f32], &mut [bool]) -> Result<()> + Sync + 'a;

const SEED: u64 = 17;

impl DrawnKeys {
    pub fn new(draw: KeyDraw, rows: usize, threads: usize, keys: usize) -> Self {
        let of_thread = |thread: usize| draw.keys(rows, keys, SEED + thread as u64);
        DrawnKeys { draw, keys: (0..threads).map(of_thread).collect() }
    }

    /// By so many of its threads.
    pub fn lookups(&self, threads: usize, batch: usize, dim: usize) -> Lookups<'_> {
        let keys = &self.keys[..threads];
        assert!(keys.iter().all(|keys| keys.len() >= batch), "a batch of {batch} keys");
        Lookups { draw: self.draw, keys, batch, dim }
    }
}

impl Lookups<'_> {
    pub fn threads(&self) -> usize {
        self.keys.len()
    }

    /// Rows a second of each way to get them, which take turns.
    pub fn rates<const WAYS: usize>(
        &self,
        repeat: usize,
        ways: [&Get<'_>; WAYS],
    ) -> Result<[Spread; WAYS]> {
        in_turns(repeat, ways.map(|get| move || self.run(get)))
    }

    /// Rows a second of writes by the same keys and batches: all rows become the same.
    pub fn write_rate(
        &self,
        repeat: usize,
        put: impl Fn(&[i64], &[f32]) -> Result<()> + Sync,
    ) -> Result<Spread> {
        let rows = vec![1.0; self.batch * self.dim];
        let run = || {
            self.timed(|keys| keys.chunks_exact(self.batch).try_for_each(|keys| put(keys, &rows)))
        };
        Ok(in_turns(repeat, [run])?[0])
    }

    fn run(&self, get: &Get<'_>) -> Result<f64> {
        self.timed(|keys| {
            let mut rows = vec![0.0; self.batch * self.dim];
            let mut found = vec![false; self.batch];
            for keys in keys.chunks_exact(self.batch) {
                found.fill(false);
                get(keys, &mut rows, &mut found)?;
                ensure!(found.iter().all(|found| *found), "a row that was put in was not found");
            }
            let last = keys.chunks_exact(self.batch).next_back();
            check_rows(last.expect("at least one batch"), &rows)
        })
    }

    /// Rows a second while each thread works on its keys.
    fn timed(&self, work: impl Fn(&[i64]) -> Result<()> + Sync) -> Result<f64> {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> =
                self.keys.iter().map(|keys| scope.spawn(move || work(keys))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        let whole_batches = |keys: &Vec<i64>| keys.len() / self.batch * self.batch;
        let keys: usize = self.keys.iter().map(whole_batches).sum();
        Ok(keys as f64 / began.elapsed().as_secs_f64())
    }
}

/// Runs them one after the other, once uncounted and then so often, so that what else the machine
/// does meets all of them; each gives its rate.
fn in_turns<const WAYS: usize>(
    repeat: usize,
    ways: [impl Fn() -> Result<f64>; WAYS],
) -> Result<[Spread; WAYS]> {
    let mut rates = [const { Vec::new() }; WAYS];
    for round in 0..=repeat {
        for (rates, way) in rates.iter_mut().zip(&ways) {
            let rate = way()?;
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    Ok(rates.map(Spread::of))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn ways_take_turns_and_the_first_run_does_not_count() {
        let calls = Cell::new(0.0);
        let next = || {
            calls.set(calls.get() + 1.0);
            Ok(calls.get())
        };
        let rates = in_turns(3, [&next, &next]).expect("it runs");
        assert_eq!(rates.map(|rate| (rate.least, rate.best)), [(3.0, 7.0), (4.0, 8.0)]);
    }
}
