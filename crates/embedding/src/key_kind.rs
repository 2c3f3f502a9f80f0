//! How the keys of all tables are written down: as 4 bytes or as 8.
//!
//! In memory a key is an `i64` in either case; what has 4 bytes is a `u32` and comes back
//! zero-extended. Bytes are little-endian. A key that does not fit is refused, never cut.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    U32,
    I64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "key {key} does not fit into a u32 (0 to {max}); set supportlonglong to true for keys of \
         64 bits",
        max = u32::MAX
    )]
    OutOfRange { key: i64 },
    #[error("{bytes} bytes of keys are no whole number of keys of {key_bytes} bytes")]
    PartOfKey { bytes: usize, key_bytes: usize },
}

impl KeyKind {
    /// Of one key.
    pub fn bytes(self) -> usize {
        match self {
            KeyKind::U32 => 4,
            KeyKind::I64 => 8,
        }
    }

    /// Whether a key is one of this kind.
    pub fn contains(self, key: i64) -> bool {
        self == KeyKind::I64 || u32::try_from(key).is_ok()
    }

    pub fn check(self, keys: &[i64]) -> Result<(), KeyError> {
        match keys.iter().find(|key| !self.contains(**key)) {
            Some(&key) => Err(KeyError::OutOfRange { key }),
            None => Ok(()),
        }
    }

    /// Appends the keys to `bytes`; where one does not fit, nothing is appended.
    pub fn encode(self, keys: &[i64], bytes: &mut Vec<u8>) -> Result<(), KeyError> {
        self.check(keys)?;
        bytes.reserve(keys.len() * self.bytes());
        keys.iter().for_each(|key| self.encode_one(*key, bytes));
        Ok(())
    }

    /// Appends the bytes of a key of this kind.
    pub fn encode_one(self, key: i64, bytes: &mut Vec<u8>) {
        assert!(self.contains(key), "key {key} is no {self:?}");
        // The low bytes of an `i64` are those of the `u32` that was zero-extended to it.
        bytes.extend_from_slice(&key.to_le_bytes()[..self.bytes()]);
    }

    /// The key that the first of `bytes` are.
    pub fn decode_one(self, bytes: &[u8]) -> i64 {
        let mut wide = [0; 8];
        wide[..self.bytes()].copy_from_slice(&bytes[..self.bytes()]);
        i64::from_le_bytes(wide)
    }

    /// Appends the keys in `bytes` to `keys`.
    pub fn decode(self, bytes: &[u8], keys: &mut Vec<i64>) -> Result<(), KeyError> {
        let key_bytes = self.bytes();
        if !bytes.len().is_multiple_of(key_bytes) {
            return Err(KeyError::PartOfKey { bytes: bytes.len(), key_bytes });
        }
        keys.extend(bytes.chunks_exact(key_bytes).map(|bytes| self.decode_one(bytes)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_little_endian() {
        let check = |kind: KeyKind, key: i64, want: &[u8]| {
            let mut bytes = Vec::new();
            kind.encode(&[key], &mut bytes).unwrap();
            assert_eq!(bytes, want, "{kind:?} {key}");
        };
        check(KeyKind::U32, 0x0102_0304, &[4, 3, 2, 1]);
        check(KeyKind::U32, u32::MAX.into(), &[255; 4]);
        check(KeyKind::I64, 5, &[5, 0, 0, 0, 0, 0, 0, 0]);
        check(KeyKind::I64, -1, &[255; 8]);
    }

    #[test]
    fn a_key_that_does_not_fit_is_refused_and_nothing_is_written() {
        for key in [-1, i64::from(u32::MAX) + 1, i64::MIN, i64::MAX] {
            let mut bytes = vec![7];
            let error = KeyKind::U32.encode(&[1, key], &mut bytes).unwrap_err();
            assert_eq!(error, KeyError::OutOfRange { key });
            assert_eq!(bytes, [7]);
        }
    }

    #[test]
    fn a_part_of_a_key_is_refused() {
        let mut keys = Vec::new();
        let error = KeyKind::I64.decode(&[0; 12], &mut keys).unwrap_err();
        assert_eq!(error.to_string(), "12 bytes of keys are no whole number of keys of 8 bytes");
        assert!(keys.is_empty());
    }

    proptest! {
        #[test]
        fn keys_come_back_as_they_were(wide in any::<Vec<i64>>(), narrow in any::<Vec<u32>>()) {
            let narrow: Vec<i64> = narrow.into_iter().map(i64::from).collect();
            for (kind, keys) in [(KeyKind::I64, wide), (KeyKind::U32, narrow)] {
                let (mut bytes, mut back) = (Vec::new(), Vec::new());
                kind.encode(&keys, &mut bytes).unwrap();
                prop_assert_eq!(bytes.len(), keys.len() * kind.bytes());
                kind.decode(&bytes, &mut back).unwrap();
                prop_assert_eq!(back, keys);
            }
        }
    }
}
