//! Bytes as hexadecimal text, two lower-case digits each: for ids, names of files and JSON.
//!
//! For serde's `with`: a field of bytes of any or of a fixed number.

use serde::{Deserialize, Deserializer, Serializer};

pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// `None` where anything is not a pair of lower-case digits: a value has one text only.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    let byte = |&[high, low]: &[u8; 2]| Some(half(high)? << 4 | half(low)?);
    if odd.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&to_hex(bytes.as_ref()))
}

pub fn deserialize<'de, D, Bytes>(from: D) -> Result<Bytes, D::Error>
where
    D: Deserializer<'de>,
    Bytes: TryFrom<Vec<u8>>,
{
    let text = String::deserialize(from)?;
    let bytes = from_hex(&text).ok_or_else(|| serde::de::Error::custom("not hexadecimal"))?;
    let count = bytes.len();
    let other = |_| serde::de::Error::custom(format!("{count} bytes, which is not their number"));
    Bytes::try_from(bytes).map_err(other)
}

fn half(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_text() {
        assert_eq!(to_hex(&[0, 0x9a, 0xff]), "009aff");
        assert_eq!(from_hex("009aff"), Some(vec![0, 0x9a, 0xff]));
        assert_eq!(from_hex(""), Some(vec![]));
        for wrong in ["0", "0x", "FF", "é0", "00 "] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}
