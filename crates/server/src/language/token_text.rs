//! A token's text, and how it is looked up.

use std::sync::Arc;

use terrace_engine::TokenId;

/// A token as clients are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenText {
    /// Where the bytes are not whole characters, `bytes:\x..` as OpenAI writes it.
    pub text: String,
    pub bytes: Vec<u8>,
}

/// Looks up a token's text.
pub type TokenNames = Arc<dyn Fn(TokenId) -> TokenText + Send + Sync>;

impl TokenText {
    pub fn of(bytes: Vec<u8>) -> Self {
        let text = match str::from_utf8(&bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                let hex: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
                format!("bytes:{hex}")
            }
        };
        Self { text, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_shown_as_bytes() {
        let half = TokenText::of(vec![0xe2, 0x80]);
        assert_eq!(
            (half.text.as_str(), half.bytes.as_slice()),
            (r"bytes:\xe2\x80", &[0xe2, 0x80][..])
        );
        assert_eq!(TokenText::of("é".into()).text, "é");
    }
}
