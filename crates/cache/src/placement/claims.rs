//! All that was asked for one entry: until when it has which priority.
//!
//! Several may use one entry, and each has its [`Retention`]. The rule: at every moment the entry
//! has the highest priority of the claims that have not expired; when all have, it is expired.
//! A claim that another one outlasts at no lower priority never counts and is not kept, so there
//! are at most as many as there are priorities, and nearly always one.
//! Invariant: there is a claim, and from one to the next the priority falls and the expiry rises.

use super::retention::{Class, Retention};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims(Vec<Retention>);

impl Claims {
    /// One more claim; the others stay.
    pub fn add(&mut self, claim: Retention) {
        if self.0.iter().any(|known| known.covers(claim)) {
            return;
        }
        self.0.retain(|known| !claim.covers(*known));
        let at = self.0.partition_point(|known| claim.priority < known.priority);
        self.0.insert(at, claim);
    }

    /// The claim is given up, if it still counts; where no other is left the entry has the default.
    pub fn remove(&mut self, claim: Retention) {
        self.0.retain(|known| *known != claim);
        if self.0.is_empty() {
            self.0.push(Retention::default());
        }
    }

    /// The claim that ends last, for who can keep only one.
    pub fn longest(&self) -> Retention {
        *self.0.last().expect("there is a claim")
    }

    /// The strongest first.
    pub fn iter(&self) -> impl Iterator<Item = Retention> {
        self.0.iter().copied()
    }

    pub(super) fn class(&self, now_ms: u64) -> Class {
        let counts = self.iter().find(|claim| !claim.is_expired(now_ms));
        counts.map_or(Class::EXPIRED, |claim| claim.class(now_ms))
    }

    /// When the class is another one, if it will be.
    pub(super) fn next_change_ms(&self, now_ms: u64) -> Option<u64> {
        self.iter().find(|claim| !claim.is_expired(now_ms))?.expires_ms
    }
}

impl From<Retention> for Claims {
    fn from(claim: Retention) -> Self {
        Claims(vec![claim])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const fn claim(priority: u8, expires_ms: Option<u64>) -> Retention {
        Retention { priority, expires_ms }
    }

    #[test]
    fn a_high_priority_falls_back_to_the_claim_that_outlasts_it() {
        let mut claims = Claims::from(claim(35, None));
        claims.add(claim(80, Some(10)));
        claims.add(claim(60, Some(50)));
        claims.add(claim(50, Some(50)));
        assert_eq!(claims.iter().count(), 3, "{claims:?}");
        let priorities =
            [(9, 80, Some(10)), (10, 60, Some(50)), (49, 60, Some(50)), (50, 35, None)];
        for (now_ms, priority, change_ms) in priorities {
            assert_eq!(claims.class(now_ms), Class(1 + priority), "at {now_ms}");
            assert_eq!(claims.next_change_ms(now_ms), change_ms, "at {now_ms}");
        }
        assert_eq!(claims.longest(), claim(35, None));
        claims.remove(claim(80, Some(10)));
        assert_eq!(claims.class(0), Class(61));
        claims.remove(claim(80, Some(10)));
        claims.remove(claim(60, Some(50)));
        assert_eq!(claims, Claims::from(claim(35, None)));
    }

    #[test]
    fn an_entry_without_claims_has_the_default() {
        let mut claims = Claims::from(claim(90, Some(5)));
        claims.remove(claim(90, Some(5)));
        assert_eq!(claims, Claims::from(Retention::default()));
    }

    proptest! {
        /// The model remembers every claim.
        #[test]
        fn the_strongest_claim_that_has_not_expired_counts(
            first in (select(vec![0_u8, 35, 60, 100]), prop::option::of(0..20_u64)),
            rest in prop::collection::vec((0..=100_u8, prop::option::of(0..20_u64)), 0..12),
        ) {
            let mut claims = Claims::from(claim(first.0, first.1));
            let mut all = vec![claim(first.0, first.1)];
            for (priority, expires_ms) in rest {
                claims.add(claim(priority, expires_ms));
                all.push(claim(priority, expires_ms));
                for now_ms in 0..21 {
                    let is_alive =
                        |one: &&Retention| one.expires_ms.is_none_or(|end| now_ms < end);
                    let alive = all.iter().filter(is_alive);
                    let want = alive.map(|one| Class(1 + one.priority)).max();
                    prop_assert_eq!(claims.class(now_ms), want.unwrap_or(Class::EXPIRED));
                    let class = claims.class(now_ms);
                    let change = (now_ms + 1..21).find(|at| claims.class(*at) != class);
                    prop_assert_eq!(claims.next_change_ms(now_ms), change);
                }
            }
        }
    }
}
