//! When or how often rows were used, as it is written beside them: the hash whose name ends in `t`.
//!
//! The time of the last use is 8 bytes, seconds since 1970, and a count is a decimal number, as
//! other users of these tables write them. Nothing is written where nothing is ever evicted, or by
//! chance. A mark that cannot be read, as when the policy changed, is as good as none.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::Cmd;

use crate::config::{OverflowConfig, OverflowPolicy};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UseMarks {
    None,
    LastUse,
    Count,
}

impl UseMarks {
    pub(super) fn new(overflow: &OverflowConfig) -> Self {
        match overflow.policy {
            _ if overflow.margin == u64::MAX => UseMarks::None,
            OverflowPolicy::EvictRandom => UseMarks::None,
            OverflowPolicy::EvictOldest => UseMarks::LastUse,
            OverflowPolicy::EvictLeastUsed => UseMarks::Count,
        }
    }

    /// Marks fields as used so many times: one command for all, or one for each.
    pub(super) fn commands<F: AsRef<[u8]>>(self, hash: &str, used: &[(F, u32)]) -> Vec<Cmd> {
        match self {
            _ if used.is_empty() => Vec::new(),
            UseMarks::None => Vec::new(),
            UseMarks::LastUse => {
                let now = seconds_now().to_le_bytes();
                let mut set = redis::cmd("HSET");
                set.arg(hash);
                used.iter().for_each(|(field, _)| {
                    set.arg(field.as_ref()).arg(&now[..]);
                });
                vec![set]
            }
            UseMarks::Count => {
                let one = |(field, uses): &(F, u32)| {
                    let mut add = redis::cmd("HINCRBY");
                    add.arg(hash).arg(field.as_ref()).arg(*uses);
                    add
                };
                used.iter().map(one).collect()
            }
        }
    }

    /// Sets marks to what `worth` reads.
    pub(super) fn set<F: AsRef<[u8]>>(self, hash: &str, marks: &[(F, u64)]) -> Cmd {
        let mut set = redis::cmd("HSET");
        set.arg(hash);
        for (field, worth) in marks {
            set.arg(field.as_ref());
            match self {
                UseMarks::LastUse => set.arg(&worth.to_le_bytes()[..]),
                UseMarks::None | UseMarks::Count => set.arg(*worth),
            };
        }
        set
    }

    /// The smaller, the sooner a row is evicted; `None` where the mark says nothing.
    pub(super) fn worth(self, mark: &[u8]) -> Option<u64> {
        match self {
            UseMarks::None => None,
            UseMarks::LastUse => mark.try_into().ok().map(u64::from_le_bytes),
            UseMarks::Count => std::str::from_utf8(mark).ok()?.parse().ok(),
        }
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_and_others_say_nothing() {
        let check = |marks: UseMarks, mark: &[u8], want: Option<u64>| {
            assert_eq!(marks.worth(mark), want, "{marks:?} {mark:?}");
        };
        check(UseMarks::LastUse, &[1, 2, 0, 0, 0, 0, 0, 0], Some(513));
        check(UseMarks::LastUse, b"513", None);
        check(UseMarks::Count, b"513", Some(513));
        check(UseMarks::Count, b"-1", None);
        check(UseMarks::Count, &[1, 2, 0, 0, 0, 0, 0, 0], None);
        check(UseMarks::Count, b"", None);
        check(UseMarks::None, b"513", None);
    }

    #[test]
    fn nothing_is_written_where_nothing_is_evicted_by_use() {
        let check = |policy, margin, want| {
            let overflow = OverflowConfig { margin, policy, target: 0.8 };
            assert_eq!(UseMarks::new(&overflow), want);
        };
        check(OverflowPolicy::EvictOldest, 5, UseMarks::LastUse);
        check(OverflowPolicy::EvictOldest, u64::MAX, UseMarks::None);
        check(OverflowPolicy::EvictLeastUsed, 5, UseMarks::Count);
        check(OverflowPolicy::EvictRandom, 5, UseMarks::None);
    }
}
