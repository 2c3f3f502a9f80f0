//! In which order cases are learnt, and with which others.
//!
//! A batch has cases of similar length, so that little of it is padding; batches come in an order
//! drawn anew in each epoch, the same for the same seed.

use terrace_kernels::random::SplitMix;

#[derive(Clone, Debug)]
pub struct BatchOrder {
    /// Numbers of cases, in batches of rising length.
    batches: Vec<Vec<usize>>,
    first: FirstBatches,
    seed: u64,
}

/// What an epoch begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBatches {
    Any,
    /// The longest batch, which shows early whether memory is enough.
    Longest,
    /// The shortest one.
    Shortest,
}

impl BatchOrder {
    /// `lengths`: of all cases, by their numbers. The longest ones have the batch that is not full.
    pub fn new(
        cases: &[usize],
        lengths: &[usize],
        batch: usize,
        first: FirstBatches,
        seed: u64,
    ) -> Self {
        assert!(0 < batch, "a batch has cases");
        let mut sorted = cases.to_vec();
        sorted.sort_by_key(|case| (lengths[*case], *case));
        let batches = sorted.chunks(batch).map(<[usize]>::to_vec).collect();
        BatchOrder { batches, first, seed }
    }

    /// Batches of an epoch.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub fn epoch(&self, epoch: usize) -> Vec<Vec<usize>> {
        // The one in front stays there.
        let front = match self.first {
            FirstBatches::Any => None,
            FirstBatches::Shortest => self.batches.first(),
            FirstBatches::Longest => self.batches.last(),
        };
        let mixed = match self.first {
            FirstBatches::Any => &self.batches[..],
            FirstBatches::Shortest => self.batches.get(1..).unwrap_or_default(),
            FirstBatches::Longest => &self.batches[..self.len().saturating_sub(1)],
        };
        let mut random = SplitMix::new(self.seed.wrapping_add(epoch as u64));
        let mixed = random.shuffled(mixed.len()).into_iter().map(|at| &mixed[at]);
        front.into_iter().chain(mixed).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 9] = [5, 90, 7, 60, 6, 80, 70, 50, 8];

    fn order(first: FirstBatches) -> BatchOrder {
        BatchOrder::new(&[0, 1, 2, 3, 4, 5, 6, 7], &LENGTHS, 3, first, 4)
    }

    #[test]
    fn an_epoch_has_each_case_once_and_depends_on_the_seed_alone() {
        let order = order(FirstBatches::Any);
        assert_eq!(order.len(), 3);
        let mut seen = std::collections::BTreeSet::new();
        for epoch in 0..20 {
            let batches = order.epoch(epoch);
            assert_eq!(batches, order.epoch(epoch));
            let mut cases = batches.concat();
            cases.sort_unstable();
            assert_eq!(cases, [0, 1, 2, 3, 4, 5, 6, 7]);
            assert!(batches.contains(&vec![0, 4, 2]), "cases of similar length are together");
            seen.insert(batches);
        }
        assert!(1 < seen.len());
    }

    #[test]
    fn longest_or_shortest_come_first() {
        for epoch in 0..9 {
            assert_eq!(order(FirstBatches::Longest).epoch(epoch)[0], [5, 1]);
            assert_eq!(order(FirstBatches::Shortest).epoch(epoch)[0], [0, 4, 2]);
        }
        let none = BatchOrder::new(&[], &LENGTHS, 3, FirstBatches::Longest, 4);
        assert!(none.is_empty() && none.epoch(0).is_empty());
    }
}
