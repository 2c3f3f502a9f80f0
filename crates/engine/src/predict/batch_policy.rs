//! Which waiting requests are computed together, and how long one may wait for others.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Samples of a batch.
    pub max_samples: usize,
    /// `None`: each request is a batch.
    pub joining: Option<Joining>,
    /// Requests that wait; more are refused.
    pub max_waiting: usize,
}

/// How requests become one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joining {
    /// Sizes that are computed as soon as they are there, ascending; none: only a full batch is.
    pub preferred: Vec<usize>,
    /// The longest that a request waits for others.
    pub delay: Duration,
}

/// What is done with those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The first so many are a batch.
    Run(usize),
    /// Unless others come.
    Wait(Duration),
}

impl BatchPolicy {
    /// `sizes`: the samples of those who wait, in order, at least one; `age`: how long the first
    /// has waited.
    pub fn decide(&self, sizes: impl Iterator<Item = usize>, age: Duration) -> Decision {
        let Some(joining) = &self.joining else { return Decision::Run(1) };
        let (mut samples, mut requests, mut preferred) = (0, 0, None);
        let mut is_full = false;
        for size in sizes {
            is_full = samples + size > self.max_samples;
            if is_full {
                break;
            }
            samples += size;
            requests += 1;
            if joining.preferred.contains(&samples) {
                preferred = Some((samples, requests));
            }
        }
        if is_full || samples == self.max_samples {
            // One that is larger than a batch has been refused before.
            return Decision::Run(requests.max(1));
        }
        if age >= joining.delay {
            return Decision::Run(preferred.map_or(requests, |(_, requests)| requests));
        }
        match preferred {
            Some((size, requests)) if joining.preferred.last() == Some(&size) => {
                Decision::Run(requests)
            }
            _ => Decision::Wait(joining.delay - age),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_micros(100);

    fn decide(preferred: &[usize], sizes: &[usize], age_us: u64) -> Decision {
        let joining = Joining { preferred: preferred.to_vec(), delay: DELAY };
        let policy = BatchPolicy { max_samples: 16, joining: Some(joining), max_waiting: 10 };
        policy.decide(sizes.iter().copied(), Duration::from_micros(age_us))
    }

    #[test]
    fn without_joining_each_is_computed_alone() {
        let policy = BatchPolicy { max_samples: 16, joining: None, max_waiting: 10 };
        assert_eq!(policy.decide([1, 1].into_iter(), Duration::ZERO), Decision::Run(1));
    }

    #[test]
    fn a_full_batch_waits_for_nobody() {
        assert_eq!(decide(&[], &[8, 8, 1], 0), Decision::Run(2));
        assert_eq!(decide(&[], &[8, 9], 0), Decision::Run(1));
        assert_eq!(decide(&[4], &[1, 16], 0), Decision::Run(1));
    }

    #[test]
    fn others_are_waited_for_as_long_as_is_allowed() {
        assert_eq!(decide(&[], &[1, 2], 40), Decision::Wait(Duration::from_micros(60)));
        assert_eq!(decide(&[], &[1, 2], 100), Decision::Run(2));
        assert_eq!(decide(&[2, 4], &[1, 1, 1], 100), Decision::Run(2));
    }

    #[test]
    fn the_largest_preferred_size_is_computed_at_once() {
        assert_eq!(decide(&[2, 4], &[1, 1], 0), Decision::Wait(DELAY));
        assert_eq!(decide(&[2, 4], &[1, 1, 2], 0), Decision::Run(3));
        assert_eq!(decide(&[2, 4], &[1, 1, 2, 1], 0), Decision::Run(3));
    }
}
