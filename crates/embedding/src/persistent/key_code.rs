//! Keys as a database has them: 4 or 8 bytes, in one order or the other.
//!
//! A key's rank is the number whose big-endian bytes are the key's bytes: keys that are sorted by
//! rank are sorted by bytes, which is the order of a database's files.

use crate::key_kind::KeyKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// HugeCTR's.
    Little,
    /// Keys that follow each other lie beside each other: rows of a file whose keys ascend come
    /// into a database without being merged, and blocks keep what keys have in common once.
    Big,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCode {
    pub kind: KeyKind,
    pub order: ByteOrder,
}

impl KeyCode {
    /// Of a key that fits.
    #[inline]
    pub fn rank(self, key: i64) -> u64 {
        match (self.kind, self.order) {
            (KeyKind::I64, ByteOrder::Big) => key.cast_unsigned(),
            (KeyKind::I64, ByteOrder::Little) => key.cast_unsigned().swap_bytes(),
            (KeyKind::U32, ByteOrder::Big) => u64::from(key as u32),
            (KeyKind::U32, ByteOrder::Little) => u64::from((key as u32).swap_bytes()),
        }
    }

    /// The bytes of the key whose rank has these big-endian bytes.
    #[inline]
    pub fn bytes(self, rank: &[u8; 8]) -> &[u8] {
        &rank[8 - self.kind.bytes()..]
    }

    /// `None` where these are not as many bytes as a key has.
    pub fn key(self, bytes: &[u8]) -> Option<i64> {
        if bytes.len() != self.kind.bytes() {
            return None;
        }
        let mut wide = [0; 8];
        let little = &mut wide[..bytes.len()];
        little.copy_from_slice(bytes);
        if self.order == ByteOrder::Big {
            little.reverse();
        }
        Some(i64::from_le_bytes(wide))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CODES: [KeyCode; 4] = [
        KeyCode { kind: KeyKind::U32, order: ByteOrder::Little },
        KeyCode { kind: KeyKind::U32, order: ByteOrder::Big },
        KeyCode { kind: KeyKind::I64, order: ByteOrder::Little },
        KeyCode { kind: KeyKind::I64, order: ByteOrder::Big },
    ];

    fn bytes(code: KeyCode, key: i64) -> Vec<u8> {
        code.bytes(&code.rank(key).to_be_bytes()).to_vec()
    }

    #[test]
    fn keys_have_the_bytes_of_their_order() {
        let check = |code: KeyCode, key: i64, want: &[u8]| {
            assert_eq!(bytes(code, key), want, "{code:?} {key}");
        };
        let [narrow_little, narrow_big, wide_little, wide_big] = CODES;
        check(narrow_little, 0x0102_0304, &[4, 3, 2, 1]);
        check(narrow_big, 0x0102_0304, &[1, 2, 3, 4]);
        check(wide_little, 5, &[5, 0, 0, 0, 0, 0, 0, 0]);
        check(wide_big, 5, &[0, 0, 0, 0, 0, 0, 0, 5]);
        check(wide_big, -1, &[255; 8]);
    }

    #[test]
    fn other_numbers_of_bytes_are_no_keys() {
        for code in CODES {
            for length in (0..12).filter(|length| *length != code.kind.bytes()) {
                assert_eq!(code.key(&vec![1; length]), None, "{code:?} {length}");
            }
        }
    }

    proptest! {
        #[test]
        fn keys_come_back_and_ranks_order_them_as_bytes(one in any::<i64>(), other in any::<i64>())
        {
            for code in CODES {
                let fits = |key: i64| match code.kind {
                    KeyKind::U32 => i64::from(key as u32),
                    KeyKind::I64 => key,
                };
                let (one, other) = (fits(one), fits(other));
                prop_assert_eq!(code.key(&bytes(code, one)), Some(one));
                let by_bytes = bytes(code, one).cmp(&bytes(code, other));
                prop_assert_eq!(code.rank(one).cmp(&code.rank(other)), by_bytes);
                let mut little = Vec::new();
                code.kind.encode(&[one], &mut little).unwrap();
                if code.order == ByteOrder::Little {
                    prop_assert_eq!(bytes(code, one), little);
                }
            }
        }
    }
}
