//! What may change about a handle after it was written, as the small file beside it.
//!
//! One line of JSON, one line with the XXH3-64 of it (seed 0, 16 hexadecimal digits). The file of
//! the handle itself never changes; without labels beside it, its manifest's are used.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::handle_info::HandleInfo;
use super::handle_manifest::check_name;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleLabels {
    pub name: String,
    pub expires_unix_ms: Option<u64>,
    pub is_pinned: bool,
}

impl HandleLabels {
    pub fn of(info: &HandleInfo) -> Self {
        HandleLabels {
            name: info.name.clone(),
            expires_unix_ms: info.expires_unix_ms,
            is_pinned: info.is_pinned,
        }
    }

    pub fn set(self, info: &mut HandleInfo) {
        (info.name, info.expires_unix_ms, info.is_pinned) =
            (self.name, self.expires_unix_ms, self.is_pinned);
    }

    pub fn encode(&self) -> String {
        let json = serde_json::to_string(self).expect("a text and numbers");
        let checksum = XxHash3_64::oneshot(json.as_bytes());
        format!("{json}\n{checksum:016x}\n")
    }

    /// `None` where it is damaged.
    pub fn decode(text: &str) -> Option<Self> {
        let (json, _) = text.split_once('\n')?;
        let labels: HandleLabels = serde_json::from_str(json).ok()?;
        check_name(&labels.name).ok()?;
        (labels.encode() == text).then_some(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_damage_is_believed() {
        let labels =
            HandleLabels { name: "é\"".into(), expires_unix_ms: Some(12), is_pinned: true };
        let text = labels.encode();
        assert_eq!(HandleLabels::decode(&text), Some(labels));
        let mut bytes = text.clone().into_bytes();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = std::str::from_utf8(&bytes).ok().and_then(HandleLabels::decode);
            assert_eq!(read, None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            assert_eq!(HandleLabels::decode(&text[..end]), None, "the first {end} bytes");
        }
    }
}
