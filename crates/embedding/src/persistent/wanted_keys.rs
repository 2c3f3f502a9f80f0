//! The keys of a look-up that nobody has found yet: each once, in the order of a database.
//!
//! Look-ups repeat keys: what is asked for once is read once and copied.

use super::key_code::KeyCode;
use super::ordered_rows::{OrderedKeys, RankedKey};
use super::row_bytes::{WrongLength, read_row};

pub struct WantedKeys {
    code: KeyCode,
    /// Each once, by its first index.
    keys: Vec<RankedKey>,
    /// All, sorted; those of `keys[place]` begin at `starts[place]`.
    indices: Vec<usize>,
    starts: Vec<usize>,
}

impl WantedKeys {
    /// Of keys that fit.
    pub fn new(code: KeyCode, keys: &[i64], found: &[bool]) -> Self {
        let wanted = keys.iter().zip(found).enumerate().filter(|(_, (_, found))| !**found);
        let ranked =
            |(index, (key, _)): (usize, (&i64, _))| RankedKey { rank: code.rank(*key), index };
        let mut all: Vec<RankedKey> = wanted.map(ranked).collect();
        all.sort_unstable();
        let indices = all.iter().map(|key| key.index).collect();
        let mut starts = Vec::with_capacity(all.len() + 1);
        let is_first = |place: usize| place == 0 || all[place - 1].rank != all[place].rank;
        starts.extend((0..all.len()).filter(|place| is_first(*place)));
        let keys = starts.iter().map(|start| all[*start]).collect();
        starts.push(all.len());
        WantedKeys { code, keys, indices, starts }
    }

    pub fn keys(&self) -> OrderedKeys<'_> {
        OrderedKeys { code: self.code, keys: &self.keys }
    }

    /// Gives the row of the key at this place to all that asked for it.
    pub fn fill(
        &self,
        place: usize,
        bytes: &[u8],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), WrongLength> {
        let dim = rows.len() / found.len();
        let (first, others) = self.indices[self.starts[place]..self.starts[place + 1]]
            .split_first()
            .expect("a key is wanted by somebody");
        let row = first * dim..(first + 1) * dim;
        read_row(bytes, &mut rows[row.clone()])?;
        found[*first] = true;
        for other in others {
            rows.copy_within(row.clone(), other * dim);
            found[*other] = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_kind::KeyKind;
    use crate::persistent::key_code::ByteOrder;

    #[test]
    fn a_key_is_asked_for_once_and_given_to_all() {
        let code = KeyCode { kind: KeyKind::I64, order: ByteOrder::Big };
        let keys = [9, 4, 9, 4, 1, 4];
        let mut found = [false, false, false, true, false, false];
        let wanted = WantedKeys::new(code, &keys, &found);
        let asked: Vec<u64> = wanted.keys().keys.iter().map(|key| key.rank).collect();
        assert_eq!(asked, [1, 4, 9]);
        let mut rows = [0.0; 6];
        wanted.fill(1, &4f32.to_le_bytes(), &mut rows, &mut found).unwrap();
        wanted.fill(2, &9f32.to_le_bytes(), &mut rows, &mut found).unwrap();
        assert_eq!(rows, [9.0, 4.0, 9.0, 0.0, 0.0, 4.0]);
        assert_eq!(found, [true, true, true, true, false, true]);
    }

    #[test]
    fn bytes_of_another_length_are_given_to_nobody() {
        let code = KeyCode { kind: KeyKind::I64, order: ByteOrder::Big };
        let (mut rows, mut found) = ([7.0; 4], [false; 2]);
        let wanted = WantedKeys::new(code, &[3, 3], &found);
        let error = wanted.fill(0, &[0; 9], &mut rows, &mut found);
        assert_eq!(error, Err(WrongLength { found: 9, wanted: 8 }));
        assert_eq!((rows, found), ([7.0; 4], [false; 2]));
    }

    #[test]
    fn where_all_is_found_nothing_is_asked_for() {
        let code = KeyCode { kind: KeyKind::U32, order: ByteOrder::Little };
        assert!(WantedKeys::new(code, &[1, 2], &[true; 2]).keys().keys.is_empty());
        assert!(WantedKeys::new(code, &[], &[]).keys().keys.is_empty());
    }
}
