//! What becomes of a history that is longer than the model takes.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncate {
    /// The first items stay, as in the original's data sets. What is cached stays usable.
    #[default]
    OldestKept,
    /// The last items stay. Positions are absolute, so any other start changes every token: the
    /// start moves in hops of a quarter of what fits, and only then is all computed again.
    Recent,
}

impl Truncate {
    /// The items that stay of `items`, where at most `most` fit.
    pub fn kept(self, items: usize, most: usize) -> std::ops::Range<usize> {
        if items <= most {
            return 0..items;
        }
        match self {
            Truncate::OldestKept => 0..most,
            Truncate::Recent => {
                let hop = most.div_ceil(4);
                let start = (items - most).div_ceil(hop) * hop;
                start.min(items)..items
            }
        }
    }
}

impl fmt::Display for Truncate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Truncate::OldestKept => "oldest_kept",
            Truncate::Recent => "recent",
        })
    }
}

impl FromStr for Truncate {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "oldest_kept" => Ok(Truncate::OldestKept),
            "recent" => Ok(Truncate::Recent),
            other => Err(format!("{other:?} is none of oldest_kept, recent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_histories_move_in_hops_of_a_quarter() {
        for most in [1, 2, 7, 100] {
            let mut starts = Vec::new();
            for items in 0..5 * most {
                let kept = Truncate::Recent.kept(items, most);
                assert!(kept.len() <= most && kept.end == items, "{items} items, {kept:?}");
                assert!(items <= most || most - most.div_ceil(4) < kept.len() + 1, "{kept:?}");
                starts.push(kept.start);
            }
            assert!(starts.is_sorted());
            starts.dedup();
            assert!(starts.len() <= 1 + 4 * 4 + 4, "{} starts for {most}", starts.len());
            assert_eq!(Truncate::OldestKept.kept(3 * most, most), 0..most);
        }
    }
}
