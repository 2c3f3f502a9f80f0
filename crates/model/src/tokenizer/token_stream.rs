//! Text from tokens as they come.

use std::sync::Arc;

use super::special_tokens::SpecialTokens;
use super::token_bytes::{FirstSpace, TokenBytes};
use crate::error::Error;

/// Gives the text of [`Tokenizer::decode`](super::Tokenizer::decode) as tokens come.
///
/// A text never ends inside a character: bytes wait until the character is whole, or cannot
/// become one. To continue a prompt, push the prompt's ids first and drop what they give.
pub struct TokenStream {
    token_bytes: Arc<TokenBytes>,
    special: SpecialTokens,
    /// Bytes of a character that is not whole yet.
    pending: Vec<u8>,
    /// Whether the next text is the first, whose leading space may be dropped.
    at_start: bool,
}

impl TokenStream {
    pub(super) fn new(token_bytes: Arc<TokenBytes>, special: SpecialTokens) -> Self {
        TokenStream { token_bytes, special, pending: Vec::new(), at_start: true }
    }

    /// Keeps a space in front of the whole text, also where a decoded text has none.
    pub fn with_first_space(self) -> Self {
        TokenStream { at_start: false, ..self }
    }

    /// The text that `id` completes; empty while a character is incomplete.
    pub fn push(&mut self, id: u32) -> Result<String, Error> {
        self.pending.extend_from_slice(self.token_bytes.shown(id, self.special)?);
        let undecided = incomplete_tail(&self.pending);
        let decided: Vec<u8> = self.pending.drain(..self.pending.len() - undecided).collect();
        Ok(self.text(&decided))
    }

    /// What is left: U+FFFD for a character that never became whole.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        self.text(&rest)
    }

    fn text(&mut self, bytes: &[u8]) -> String {
        let drops_space = self.at_start && self.token_bytes.first_space() == FirstSpace::Drop;
        self.at_start &= bytes.is_empty();
        let bytes = if drops_space { bytes.strip_prefix(b" ").unwrap_or(bytes) } else { bytes };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// How many last bytes may still become a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}
