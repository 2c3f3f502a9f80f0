//! What was asked for an entry: how much it matters, and until when.
//!
//! It orders entries before any rule does. Times are the caller's, in milliseconds from wherever it
//! counts; nothing here reads a clock.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Up to [`MAX_PRIORITY`](Self::MAX_PRIORITY); the lower leaves first.
    pub priority: u8,
    /// From this time on the entry leaves before all that are not expired. `None`: never.
    pub expires_ms: Option<u64>,
}

/// Entries of a lower class leave first, whatever the rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class(pub(super) u8);

impl Class {
    pub(super) const EXPIRED: Class = Class(0);
}

impl Retention {
    pub const MAX_PRIORITY: u8 = 100;
    /// What an entry has when nobody says more.
    pub const DEFAULT_PRIORITY: u8 = 35;

    /// The larger of both in priority and in expiry, where never is the largest.
    #[must_use]
    pub fn raised_to(self, other: Retention) -> Retention {
        Retention {
            priority: self.priority.max(other.priority),
            expires_ms: self.expires_ms.zip(other.expires_ms).map(|(one, two)| one.max(two)),
        }
    }

    pub(super) fn class(self, now_ms: u64) -> Class {
        match self.expires_ms {
            Some(expires_ms) if expires_ms <= now_ms => Class::EXPIRED,
            _ => Class(1 + self.priority),
        }
    }

    pub(super) fn check(self) {
        let (priority, most) = (self.priority, Self::MAX_PRIORITY);
        assert!(priority <= most, "priority {priority} of at most {most}");
    }
}

impl Default for Retention {
    fn default() -> Self {
        Retention { priority: Self::DEFAULT_PRIORITY, expires_ms: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Retention};

    #[test]
    fn raising_takes_the_larger_of_each_and_never_is_the_largest() {
        let soon = Retention { priority: 80, expires_ms: Some(10) };
        let later = Retention { priority: 20, expires_ms: Some(90) };
        let never = Retention { priority: 5, expires_ms: None };
        assert_eq!(soon.raised_to(later), Retention { priority: 80, expires_ms: Some(90) });
        assert_eq!(later.raised_to(soon), soon.raised_to(later));
        assert_eq!(soon.raised_to(never), Retention { priority: 80, expires_ms: None });
        assert_eq!(never.raised_to(later), Retention { priority: 20, expires_ms: None });
    }

    #[test]
    fn an_entry_expires_at_its_time_and_comes_before_priority_zero() {
        let retention = Retention { priority: 100, expires_ms: Some(50) };
        assert_eq!(retention.class(49), Class(101));
        assert_eq!(retention.class(50), Class::EXPIRED);
        let lowest = Retention { priority: 0, expires_ms: None };
        assert!(retention.class(50) < lowest.class(50));
    }
}
