//! What a handle is known by for as long as it lives, whatever it is named.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use serde::{Deserialize, Serialize};

use super::hex::{self, from_hex, to_hex};

/// 16 random bytes, written as 32 hexadecimal digits. Knowing one gives no rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HandleId(#[serde(with = "hex")] pub [u8; 16]);

impl HandleId {
    /// `RandomState` is keyed by the operating system and differs each time.
    pub fn random() -> Self {
        let half = || RandomState::new().build_hasher().finish().to_le_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half());
        bytes[8..].copy_from_slice(&half());
        HandleId(bytes)
    }

    /// `None` where the text is not 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text)?.try_into().ok().map(HandleId)
    }
}

impl fmt::Display for HandleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_id_is_new_and_has_one_text() {
        let ids: BTreeSet<_> = (0..100).map(|_| HandleId::random()).collect();
        assert_eq!(ids.len(), 100);
        for id in ids {
            assert_eq!(HandleId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(HandleId::parse("00"), None);
        assert_eq!(HandleId::parse(&"0A".repeat(16)), None);
    }
}
