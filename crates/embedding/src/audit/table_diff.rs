//! In what two versions of a table differ.

use std::cmp::Ordering;

use serde::Serialize;

use super::row_digests::RowDigests;

/// What is so of a key in two versions, A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyDifference {
    OnlyInA,
    OnlyInB,
    Changed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableDiff {
    pub only_in_a: u64,
    pub only_in_b: u64,
    pub changed: u64,
    pub equal: u64,
    /// The smallest keys that differ, in their order.
    pub first: Vec<(i64, KeyDifference)>,
}

impl TableDiff {
    /// Remembers the first so many keys.
    ///
    /// # Panics
    ///
    /// Where rows have different widths: nothing would be equal.
    pub fn between(a: &RowDigests, b: &RowDigests, first: usize) -> Self {
        let mut diff = TableDiff::default();
        each_key(a, b, |key, difference| {
            match difference {
                None => diff.equal += 1,
                Some(KeyDifference::OnlyInA) => diff.only_in_a += 1,
                Some(KeyDifference::OnlyInB) => diff.only_in_b += 1,
                Some(KeyDifference::Changed) => diff.changed += 1,
            }
            if let Some(difference) = difference
                && diff.first.len() < first
            {
                diff.first.push((key, difference));
            }
        });
        diff
    }

    /// The keys whose rows in `b` are new or other ones, in their order: what makes `b` of `a`, but
    /// for those that are only in `a`.
    pub fn news(a: &RowDigests, b: &RowDigests) -> Vec<i64> {
        let mut keys = Vec::new();
        each_key(a, b, |key, difference| {
            if let Some(KeyDifference::OnlyInB | KeyDifference::Changed) = difference {
                keys.push(key);
            }
        });
        keys
    }

    pub fn different(&self) -> u64 {
        self.only_in_a + self.only_in_b + self.changed
    }
}

/// Calls `each` with every key of either, in their order; `None` where the rows are equal.
fn each_key(a: &RowDigests, b: &RowDigests, mut each: impl FnMut(i64, Option<KeyDifference>)) {
    assert_eq!(a.dim(), b.dim(), "numbers of a row");
    let (mut a, mut b) = (a.rows().iter().peekable(), b.rows().iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let of_a = if order.is_le() { a.next() } else { None };
        let of_b = if order.is_ge() { b.next() } else { None };
        match (of_a, of_b) {
            (Some((key, _)), None) => each(*key, Some(KeyDifference::OnlyInA)),
            (None, Some((key, _))) => each(*key, Some(KeyDifference::OnlyInB)),
            (Some((key, one)), Some((_, other))) => {
                each(*key, (one != other).then_some(KeyDifference::Changed));
            }
            (None, None) => unreachable!("one of them is next"),
        }
    }
}

#[cfg(test)]
mod tests;
