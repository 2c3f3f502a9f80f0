//! Samples that were checked, with their keys sorted by table.

use std::num::TryFromIntError;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableKeys {
    keys: Vec<i64>,
    /// Where each slot's keys begin, and the end: `[count * slots + 1]`
    offsets: Vec<i32>,
    /// Whether every slot has one key.
    is_one_hot: bool,
}

impl Samples {
    /// No samples, in so many tables.
    pub fn empty(tables: usize) -> Self {
        Samples { count: 0, dense: Vec::new(), tables: vec![TableKeys::default(); tables] }
    }

    pub fn clear(&mut self) {
        self.count = 0;
        self.dense.clear();
        for table in &mut self.tables {
            table.clear();
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

impl Default for TableKeys {
    /// Those of no samples.
    fn default() -> Self {
        TableKeys { keys: Vec::new(), offsets: vec![0], is_one_hot: true }
    }
}

impl TableKeys {
    /// Offsets begin with 0, do not fall, and end with the number of keys.
    pub fn new(keys: Vec<i64>, offsets: Vec<i32>) -> Self {
        let is_one_hot = offsets.windows(2).all(|pair| pair[1] - pair[0] == 1);
        TableKeys { keys, offsets, is_one_hot }
    }

    pub fn keys(&self) -> &[i64] {
        &self.keys
    }

    /// Where each slot's keys begin, and the end: `[count * slots + 1]`
    pub fn offsets(&self) -> &[i32] {
        &self.offsets
    }

    /// Whether every slot has one key.
    pub fn is_one_hot(&self) -> bool {
        self.is_one_hot
    }

    /// One more key of the slot that [`end_slot`](Self::end_slot) ends.
    pub fn push(&mut self, key: i64) {
        self.keys.push(key);
    }

    /// An error if there are more keys than offsets can count.
    pub fn end_slot(&mut self) -> Result<(), TryFromIntError> {
        let end = i32::try_from(self.keys.len())?;
        self.is_one_hot &= end - self.offsets[self.offsets.len() - 1] == 1;
        self.offsets.push(end);
        Ok(())
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.offsets.truncate(1);
        self.is_one_hot = true;
    }

    fn extend(&mut self, other: &TableKeys) {
        let base = self.keys.len() as i32;
        self.is_one_hot &= other.is_one_hot;
        self.keys.extend_from_slice(&other.keys);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| base + offset));
    }

    fn part(&self, slots: Range<usize>) -> TableKeys {
        let offsets = &self.offsets[slots.start..=slots.end];
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let keys = self.keys[first as usize..last as usize].to_vec();
        TableKeys::new(keys, offsets.iter().map(|offset| offset - first).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let keys = TableKeys::new(vec![1, 3, 8, 9, 2], vec![0, 1, 2, 2, 4, 5, 5]);
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
        assert!(!TableKeys::new(vec![1, 2], vec![0, 0, 2]).is_one_hot());
        assert!(TableKeys::new(vec![7, 7], vec![0, 1, 2]).is_one_hot());
        let mut keys = TableKeys::default();
        keys.push(5);
        assert!(keys.end_slot().is_ok() && keys.is_one_hot());
        assert!(keys.end_slot().is_ok() && !keys.is_one_hot());
        assert!(Samples::empty(1).tables[0].is_one_hot());
    }
}
