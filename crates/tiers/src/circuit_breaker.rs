//! Whether a tier that failed is worth another call.
//!
//! Some failures in a row open the breaker: no call goes through for a while. Then one trial call
//! does; if it succeeds the breaker closes, and if it fails the while is twice as long. It is a
//! decision and has no clock: the caller passes the time, and jitter comes from a seed, so that
//! many processes do not come back to a server at the same moment.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// In a row, to open.
    pub failures: u32,
    pub first_wait_ms: u64,
    pub longest_wait_ms: u64,
    /// Of the jitter.
    pub seed: u64,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        BreakerConfig { failures: 3, first_wait_ms: 1_000, longest_wait_ms: 60_000, seed: 0 }
    }
}

pub struct CircuitBreaker {
    config: BreakerConfig,
    state: State,
    random: u64,
}

#[derive(Clone, Copy)]
enum State {
    /// With so many failures in a row.
    Closed {
        failures: u32,
    },
    Open {
        trial_at_ms: u64,
        wait_ms: u64,
    },
}

/// What a call may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    Call,
    /// The one call that decides whether the breaker closes.
    Trial,
    Refused,
}

/// What the end of a call has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerChange {
    None,
    /// Calls are refused from now on, for so long.
    Opened {
        wait_ms: u64,
    },
    /// The trial failed too.
    StaysOpen {
        wait_ms: u64,
    },
    Closed,
}

impl CircuitBreaker {
    pub fn new(config: BreakerConfig) -> Self {
        CircuitBreaker { config, state: State::Closed { failures: 0 }, random: config.seed }
    }

    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Asked before each call. A trial that never reports back is followed by another one.
    pub fn permit(&mut self, now_ms: u64) -> Permit {
        match &mut self.state {
            State::Closed { .. } => Permit::Call,
            State::Open { trial_at_ms, .. } if now_ms < *trial_at_ms => Permit::Refused,
            State::Open { trial_at_ms, wait_ms } => {
                *trial_at_ms = now_ms.saturating_add(*wait_ms);
                Permit::Trial
            }
        }
    }

    /// Said after each call that was permitted. Calls from before the breaker opened change nothing
    /// any more.
    pub fn report(&mut self, permit: Permit, is_success: bool, now_ms: u64) -> BreakerChange {
        match (self.state, permit, is_success) {
            (State::Closed { .. }, _, true) => {
                self.state = State::Closed { failures: 0 };
                BreakerChange::None
            }
            (State::Closed { failures }, _, false) if failures + 1 < self.config.failures => {
                self.state = State::Closed { failures: failures + 1 };
                BreakerChange::None
            }
            (State::Closed { .. }, _, false) => {
                let wait_ms = self.open(self.config.first_wait_ms, now_ms);
                BreakerChange::Opened { wait_ms }
            }
            (State::Open { .. }, Permit::Trial, true) => {
                self.state = State::Closed { failures: 0 };
                BreakerChange::Closed
            }
            (State::Open { wait_ms, .. }, Permit::Trial, false) => {
                let wait_ms = wait_ms.saturating_mul(2).min(self.config.longest_wait_ms);
                let wait_ms = self.open(wait_ms, now_ms);
                BreakerChange::StaysOpen { wait_ms }
            }
            (State::Open { .. }, _, _) => BreakerChange::None,
        }
    }

    /// Waits between three quarters of `wait_ms` and all of it.
    fn open(&mut self, wait_ms: u64, now_ms: u64) -> u64 {
        // An LCG with Knuth's constants; its upper bits are good enough to spread trials.
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let jitter = (self.random >> 33) % (wait_ms / 4 + 1);
        let trial_at_ms = now_ms.saturating_add(wait_ms - jitter);
        self.state = State::Open { trial_at_ms, wait_ms };
        wait_ms - jitter
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn opened(seed: u64) -> (CircuitBreaker, u64) {
        let mut breaker = CircuitBreaker::new(BreakerConfig { seed, ..BreakerConfig::default() });
        for _ in 0..2 {
            assert_eq!(breaker.permit(0), Permit::Call);
            assert_eq!(breaker.report(Permit::Call, false, 0), BreakerChange::None);
        }
        match breaker.report(Permit::Call, false, 0) {
            BreakerChange::Opened { wait_ms } => (breaker, wait_ms),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let mut breaker = CircuitBreaker::new(BreakerConfig::default());
        for is_success in [false, false, true, false, false, true] {
            assert_eq!(breaker.permit(0), Permit::Call);
            assert_eq!(breaker.report(Permit::Call, is_success, 0), BreakerChange::None);
        }
        assert!(!breaker.is_open());
    }

    #[test]
    fn three_failures_open_it_and_one_trial_closes_it() {
        let (mut breaker, wait_ms) = opened(1);
        assert!((750..=1000).contains(&wait_ms), "{wait_ms}");
        assert_eq!(breaker.permit(wait_ms - 1), Permit::Refused);
        assert_eq!(breaker.permit(wait_ms), Permit::Trial);
        assert_eq!(breaker.permit(wait_ms), Permit::Refused, "one trial at a time");
        assert_eq!(breaker.report(Permit::Trial, true, wait_ms), BreakerChange::Closed);
        assert_eq!(breaker.permit(wait_ms), Permit::Call);
    }

    #[test]
    fn each_failed_trial_doubles_the_wait_up_to_the_longest() {
        let (mut breaker, mut wait_ms) = opened(2);
        let mut now_ms = 0;
        for want in [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            now_ms += wait_ms;
            assert_eq!(breaker.permit(now_ms), Permit::Trial);
            let change = breaker.report(Permit::Trial, false, now_ms);
            let BreakerChange::StaysOpen { wait_ms: next } = change else { panic!("{change:?}") };
            assert!((want * 3 / 4..=want).contains(&next), "{next} instead of {want}");
            wait_ms = next;
        }
    }

    #[test]
    fn calls_from_before_it_opened_change_nothing() {
        let (mut breaker, wait_ms) = opened(3);
        assert_eq!(breaker.report(Permit::Call, true, 0), BreakerChange::None);
        assert_eq!(breaker.report(Permit::Call, false, 0), BreakerChange::None);
        assert_eq!(breaker.permit(wait_ms - 1), Permit::Refused);
    }

    #[test]
    fn a_trial_that_never_ends_is_followed_by_another() {
        let (mut breaker, wait_ms) = opened(4);
        assert_eq!(breaker.permit(wait_ms), Permit::Trial);
        assert_eq!(breaker.permit(wait_ms + 1_000), Permit::Trial);
    }

    proptest! {
        /// Whatever happens, it never refuses for longer than the longest wait.
        #[test]
        fn it_never_refuses_for_longer_than_the_longest_wait(
            ends in prop::collection::vec((any::<bool>(), 0u64..100_000), 1..60),
            seed in any::<u64>(),
        ) {
            let config = BreakerConfig { seed, ..BreakerConfig::default() };
            let mut breaker = CircuitBreaker::new(config);
            let mut now_ms = 0;
            for (is_success, later_ms) in ends {
                now_ms += later_ms;
                match breaker.permit(now_ms) {
                    Permit::Refused => {
                        now_ms += config.longest_wait_ms;
                        prop_assert_ne!(breaker.permit(now_ms), Permit::Refused);
                    }
                    permit => { breaker.report(permit, is_success, now_ms); }
                }
            }
        }
    }
}
