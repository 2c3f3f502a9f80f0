//! Keys of a call in the order in which a database has them, each once, with their rows.

use super::key_code::KeyCode;
use super::row_bytes::write_row;
use crate::key_kind::KeyError;

/// Where a key stands in the order of bytes, and in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankedKey {
    pub rank: u64,
    pub index: usize,
}

/// Which of a key that repeats counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    First,
    Last,
}

#[derive(Clone, Copy)]
pub struct OrderedKeys<'a> {
    pub code: KeyCode,
    pub keys: &'a [RankedKey],
}

#[derive(Clone, Copy)]
pub struct OrderedRows<'a> {
    pub keys: OrderedKeys<'a>,
    /// Of the call, by the indices of keys.
    pub rows: &'a [f32],
    pub dim: usize,
}

/// All keys of a call that fit, sorted, each once.
pub fn ranked(code: KeyCode, keys: &[i64], repeated: Repeated) -> Result<Vec<RankedKey>, KeyError> {
    code.kind.check(keys)?;
    let ranked = |(index, key): (usize, &i64)| RankedKey { rank: code.rank(*key), index };
    let mut ranked: Vec<RankedKey> = keys.iter().enumerate().map(ranked).collect();
    ranked.sort_unstable();
    ranked.dedup_by(|later, earlier| {
        let is_same = later.rank == earlier.rank;
        if is_same && repeated == Repeated::Last {
            *earlier = *later;
        }
        is_same
    });
    Ok(ranked)
}

impl<'a> OrderedKeys<'a> {
    pub fn each<E>(&self, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.keys.iter().try_for_each(|key| each(self.code.bytes(&key.rank.to_be_bytes())))
    }

    /// All of them, one behind the other.
    pub fn concatenated(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.keys.len() * self.code.kind.bytes());
        for key in self.keys {
            bytes.extend_from_slice(self.code.bytes(&key.rank.to_be_bytes()));
        }
        bytes
    }

    pub fn chunks(self, keys: usize) -> impl Iterator<Item = OrderedKeys<'a>> {
        self.keys.chunks(keys.max(1)).map(move |keys| OrderedKeys { keys, ..self })
    }
}

impl<'a> OrderedRows<'a> {
    /// Keys and rows, as stored.
    pub fn bytes(&self) -> usize {
        self.keys.keys.len() * self.entry_bytes()
    }

    /// Calls `each` with a key and its row, as stored.
    pub fn each<E>(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut value = Vec::with_capacity(self.dim * size_of::<f32>());
        for key in self.keys.keys {
            write_row(&self.rows[key.index * self.dim..][..self.dim], &mut value);
            each(self.keys.code.bytes(&key.rank.to_be_bytes()), &value)?;
        }
        Ok(())
    }

    /// Of at most so many rows and about so many bytes each.
    pub fn chunks(self, rows: usize, bytes: usize) -> impl Iterator<Item = OrderedRows<'a>> {
        let rows = rows.min(bytes / self.entry_bytes());
        self.keys.chunks(rows).map(move |keys| OrderedRows { keys, ..self })
    }

    fn entry_bytes(&self) -> usize {
        self.keys.code.kind.bytes() + self.dim * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_kind::KeyKind;
    use crate::persistent::key_code::ByteOrder;

    const CODE: KeyCode = KeyCode { kind: KeyKind::U32, order: ByteOrder::Big };

    fn entries(keys: &[i64], repeated: Repeated) -> Vec<(Vec<u8>, Vec<u8>)> {
        let rows: Vec<f32> = (0..keys.len()).map(|index| index as f32).collect();
        let ranked = ranked(CODE, keys, repeated).unwrap();
        let keys = OrderedKeys { code: CODE, keys: &ranked };
        let mut entries = Vec::new();
        for part in (OrderedRows { keys, rows: &rows, dim: 1 }).chunks(2, 1 << 20) {
            assert!(part.keys.keys.len() <= 2);
            let mut each = |key: &[u8], value: &[u8]| -> Result<(), ()> {
                entries.push((key.to_vec(), value.to_vec()));
                Ok(())
            };
            part.each(&mut each).unwrap();
        }
        entries
    }

    #[test]
    fn keys_are_sorted_and_of_those_that_repeat_one_row_counts() {
        let check = |repeated: Repeated, want: [(u8, f32); 3]| {
            let want = want.map(|(key, row)| (vec![0, 0, 0, key], row.to_le_bytes().to_vec()));
            assert_eq!(entries(&[7, 3, 7, 3, 5, 7], repeated), want, "{repeated:?}");
        };
        check(Repeated::First, [(3, 1.0), (5, 4.0), (7, 0.0)]);
        check(Repeated::Last, [(3, 3.0), (5, 4.0), (7, 5.0)]);
    }

    #[test]
    fn chunks_are_of_a_row_at_least() {
        let ranked = ranked(CODE, &[1, 2, 3], Repeated::Last).unwrap();
        let keys = OrderedKeys { code: CODE, keys: &ranked };
        let rows = OrderedRows { keys, rows: &[0.0; 300], dim: 100 };
        assert_eq!(rows.chunks(10, 1).count(), 3);
    }
}
