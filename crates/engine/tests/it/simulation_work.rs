//! Work beside a simulated engine: it is done some time after it was started.

use terrace_testkit::Rng;
use terrace_tiers::Wait;

pub struct SlowWork<W> {
    /// Work is done at the latest when it is asked for so often.
    longest: usize,
    /// And how often each will be asked for in vain.
    under_way: Vec<(usize, W)>,
}

impl<W> SlowWork<W> {
    pub fn new(longest: usize) -> Self {
        SlowWork { longest, under_way: Vec::new() }
    }

    pub fn push(&mut self, work: W, rng: &mut Rng) {
        self.under_way.push((rng.below(self.longest), work));
    }

    /// What is done now; with [`Wait::ForOne`] something is.
    pub fn take_done(&mut self, wait: Wait, rng: &mut Rng) -> Vec<W> {
        if wait == Wait::ForOne {
            let first = rng.below(self.under_way.len());
            self.under_way[first].0 = 0;
        }
        let (done, left): (Vec<_>, Vec<_>) =
            self.under_way.drain(..).partition(|(polls, _)| *polls == 0);
        self.under_way = left;
        self.under_way.iter_mut().for_each(|(polls, _)| *polls -= 1);
        done.into_iter().map(|(_, work)| work).collect()
    }
}
