//! What one user asks for an entry: how much it matters, and until when.
//!
//! It orders entries before any rule does; what several ask together is
//! [`Claims`](super::Claims). Times are the caller's, in milliseconds from wherever it counts;
//! nothing here reads a clock.

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

    /// Whether this claim outlasts the other at no lower priority.
    pub fn covers(self, other: Retention) -> bool {
        let ends_no_sooner = match (self.expires_ms, other.expires_ms) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(one), Some(two)) => two <= one,
        };
        ends_no_sooner && other.priority <= self.priority
    }

    pub(super) fn is_expired(self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    pub(super) fn class(self, now_ms: u64) -> Class {
        if self.is_expired(now_ms) { Class::EXPIRED } else { Class(1 + self.priority) }
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
    fn an_entry_expires_at_its_time_and_comes_before_priority_zero() {
        let retention = Retention { priority: 100, expires_ms: Some(50) };
        assert_eq!(retention.class(49), Class(101));
        assert_eq!(retention.class(50), Class::EXPIRED);
        let lowest = Retention { priority: 0, expires_ms: None };
        assert!(retention.class(50) < lowest.class(50));
    }
}
