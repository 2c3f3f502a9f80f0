//! Samples that were checked, with their keys sorted by table.

use std::ops::Range;

/// Of one request, or of several in a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    pub count: usize,
    /// `[count, dense features]`
    pub dense: Vec<f32>,
    pub tables: Vec<TableKeys>,
}

/// The keys of samples in one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableKeys {
    pub keys: Vec<i64>,
    /// Where each slot's keys begin, and the end: `[count * slots + 1]`
    pub offsets: Vec<i32>,
}

impl Samples {
    /// No samples, in so many tables.
    pub fn empty(tables: usize) -> Self {
        let none = TableKeys { keys: Vec::new(), offsets: vec![0] };
        Samples { count: 0, dense: Vec::new(), tables: vec![none; tables] }
    }

    pub fn clear(&mut self) {
        self.count = 0;
        self.dense.clear();
        for table in &mut self.tables {
            table.keys.clear();
            table.offsets.truncate(1);
        }
    }

    /// Puts others behind these; they are of the same model.
    pub fn extend(&mut self, other: &Samples) {
        self.count += other.count;
        self.dense.extend_from_slice(&other.dense);
        for (table, more) in self.tables.iter_mut().zip(&other.tables) {
            table.extend(more);
        }
    }

    /// Some of them alone.
    pub fn part(&self, range: Range<usize>) -> Samples {
        let dense = self.dense.len().checked_div(self.count).unwrap_or(0);
        let tables = self.tables.iter().map(|table| {
            let slots = (table.offsets.len() - 1).checked_div(self.count).unwrap_or(0);
            table.part(range.start * slots..range.end * slots)
        });
        Samples {
            count: range.len(),
            dense: self.dense[range.start * dense..range.end * dense].to_vec(),
            tables: tables.collect(),
        }
    }
}

impl TableKeys {
    /// Whether every slot has one key.
    pub fn is_one_hot(&self) -> bool {
        self.keys.len() + 1 == self.offsets.len()
            && self.offsets.windows(2).all(|pair| pair[1] - pair[0] == 1)
    }

    fn extend(&mut self, other: &TableKeys) {
        let base = self.keys.len() as i32;
        self.keys.extend_from_slice(&other.keys);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| base + offset));
    }

    fn part(&self, slots: Range<usize>) -> TableKeys {
        let offsets = &self.offsets[slots.start..=slots.end];
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        TableKeys {
            keys: self.keys[first as usize..last as usize].to_vec(),
            offsets: offsets.iter().map(|offset| offset - first).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let keys = TableKeys { keys: vec![1, 3, 8, 9, 2], offsets: vec![0, 1, 2, 2, 4, 5, 5] };
        Samples { count: 3, dense: vec![0.5, 1.5, 2.5], tables: vec![keys] }
    }

    #[test]
    fn parts_put_together_again_are_the_whole() {
        let whole = samples();
        for cut in 0..=3 {
            let mut joined = Samples::empty(1);
            joined.extend(&whole.part(0..cut));
            joined.extend(&whole.part(cut..3));
            assert_eq!(joined, whole);
        }
        let mut cleared = whole;
        cleared.clear();
        assert_eq!(cleared, Samples::empty(1));
    }

    #[test]
    fn one_key_in_each_slot_is_known() {
        assert!(!samples().tables[0].is_one_hot());
        let shifted = TableKeys { keys: vec![1, 2], offsets: vec![0, 0, 2] };
        assert!(!shifted.is_one_hot());
        assert!(TableKeys { keys: vec![7, 7], offsets: vec![0, 1, 2] }.is_one_hot());
        assert!(Samples::empty(1).tables[0].is_one_hot());
    }
}
