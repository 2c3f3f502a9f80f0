//! Items that a user never had, drawn as the trainer draws them: the same for the same seed.

use std::collections::HashSet;

use anyhow::{Result, bail};
use terrace_model::hstu::recsys_args::{EvalSampling, SequentialArgs};

use super::numpy_random::NumpyRandom;

pub struct NegativeItems {
    args: SequentialArgs,
    /// Different items that users had.
    items: usize,
    /// Of each id from 0 on, how likely it or a smaller one is drawn.
    shares: Vec<f64>,
    random: NumpyRandom,
}

impl NegativeItems {
    /// `items` are those of all users, each from 1 on.
    pub fn new<'a>(
        items: impl Iterator<Item = &'a i64>,
        args: SequentialArgs,
        seed: [u64; 2],
    ) -> Self {
        let mut counts: Vec<u64> = Vec::new();
        for item in items {
            let place = usize::try_from(*item).expect("ids are from 1 on");
            counts.resize(counts.len().max(place + 1), 0);
            counts[place] += 1;
        }
        let weight = |count: &u64| match args.eval_sampling {
            EvalSampling::Uniform => f64::from(u8::from(0 < *count)),
            EvalSampling::Popularity => *count as f64,
        };
        let all: f64 = counts.iter().map(weight).sum();
        let shares = counts.iter().scan(0.0, |sum, count| {
            *sum += weight(count);
            Some(*sum / all)
        });
        NegativeItems {
            args,
            items: counts.iter().filter(|count| 0 < **count).count(),
            shares: shares.collect(),
            random: NumpyRandom::new(&seed),
        }
    }

    /// Whether there are enough for each of these users.
    pub fn check<'a>(&self, users: impl Iterator<Item = &'a [i64]>) -> Result<()> {
        let own = users.map(|items| items.iter().collect::<HashSet<_>>().len());
        let others = self.items - own.max().unwrap_or(0);
        if others < self.args.eval_negatives {
            let wanted = self.args.eval_negatives;
            bail!("SequentialArgs.eval_negatives is {wanted}; a user has {others} other items");
        }
        Ok(())
    }

    /// Different items, none of the user's own. Users are drawn for one after the other.
    pub fn draw(&mut self, own: &[i64]) -> Vec<i64> {
        let wanted = self.args.eval_negatives;
        let mut left_out: HashSet<i64> = own.iter().copied().collect();
        let mut drawn = Vec::with_capacity(2 * wanted);
        while drawn.len() < wanted {
            for _ in 0..2 * wanted {
                let draw = self.random.next_f64();
                let item = self.shares.partition_point(|share| *share <= draw) as i64;
                if left_out.insert(item) {
                    drawn.push(item);
                }
            }
        }
        drawn.truncate(wanted);
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negatives(sampling: EvalSampling, count: usize) -> NegativeItems {
        // Item 1 is there once, item 2 twice, and so on; there is no item 5.
        let items: Vec<i64> =
            (1..=9).filter(|it| *it != 5).flat_map(|it| vec![it; it as usize]).collect();
        let args = SequentialArgs { eval_negatives: count, eval_sampling: sampling };
        NegativeItems::new(items.iter(), args, [1234, 1])
    }

    #[test]
    fn different_items_that_are_not_ones_own() {
        let mut drawn = negatives(EvalSampling::Uniform, 4);
        for _ in 0..50 {
            let mut items = drawn.draw(&[2, 7]);
            items.sort_unstable();
            items.dedup();
            assert_eq!(items.len(), 4, "{items:?}");
            assert!(items.iter().all(|item| [1, 3, 4, 6, 8, 9].contains(item)), "{items:?}");
        }
    }

    #[test]
    fn frequent_items_are_drawn_more_often_by_popularity() {
        let often = |sampling, item: i64| {
            let mut drawn = negatives(sampling, 1);
            (0..2000).filter(|_| drawn.draw(&[]) == [item]).count()
        };
        // 9 of 40, and 1 of 8.
        let popular = often(EvalSampling::Popularity, 9);
        assert!((400..500).contains(&popular), "{popular}");
        let uniform = often(EvalSampling::Uniform, 9);
        assert!((200..300).contains(&uniform), "{uniform}");
    }

    #[test]
    fn too_few_items_are_refused() {
        let drawn = negatives(EvalSampling::Uniform, 6);
        assert!(drawn.check([[2, 7].as_slice(), &[1]].into_iter()).is_ok());
        let error = drawn.check([[2, 7, 9].as_slice()].into_iter()).expect_err("5 are left");
        assert!(error.to_string().contains("a user has 5 other items"), "{error}");
    }
}
