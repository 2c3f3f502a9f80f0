//! What every token stands for, in bytes.

use std::collections::HashMap;

use super::byte_level::byte_of;
use super::special_tokens::SpecialTokens;
use crate::error::Error;

/// Stands for a space in vocabularies of SentencePiece.
pub const SPACE_MARK: char = '▁';

pub struct TokenBytes {
    tokens: HashMap<u32, KnownToken>,
    vocab_size: usize,
    first_space: FirstSpace,
}

struct KnownToken {
    bytes: Vec<u8>,
    special: bool,
}

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Each byte is a printable character, as GPT-2 has it.
    ByteLevel,
    /// Text with `▁` for spaces; a lone byte is `<0x0A>`.
    SpaceMark,
}

/// A space in front of the whole text: some tokenizers put one there, and take it away again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstSpace {
    Keep,
    Drop,
}

impl TokenBytes {
    pub fn new(first_space: FirstSpace) -> Self {
        TokenBytes { tokens: HashMap::new(), vocab_size: 0, first_space }
    }

    /// A token of the model's vocabulary.
    pub fn insert(&mut self, id: u32, text: &str, spelling: Spelling) {
        let bytes = match spelling {
            Spelling::ByteLevel => text.chars().map(byte_of).collect::<Option<Vec<u8>>>(),
            Spelling::SpaceMark => byte_token(text).map(|byte| vec![byte]),
        };
        let bytes = bytes.unwrap_or_else(|| spelling.plain(text));
        self.insert_token(id, KnownToken { bytes, special: false });
    }

    /// A token that stands beside the vocabulary and is written as it is.
    pub fn insert_added(&mut self, id: u32, text: &str, spelling: Spelling, special: bool) {
        self.insert_token(id, KnownToken { bytes: spelling.plain(text), special });
    }

    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.tokens.get(&id).map(|token| token.bytes.as_slice())
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.tokens.get(&id).is_some_and(|token| token.special)
    }

    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    pub fn first_space(&self) -> FirstSpace {
        self.first_space
    }

    /// The bytes that `id` adds to a text: none for a special token that is not shown.
    pub fn shown(&self, id: u32, special: SpecialTokens) -> Result<&[u8], Error> {
        match self.tokens.get(&id) {
            Some(token) if token.special && special == SpecialTokens::Skip => Ok(&[]),
            Some(token) => Ok(&token.bytes),
            None => Err(Error::TokenUnknown { id, vocab: self.vocab_size }),
        }
    }

    pub fn decode(&self, ids: &[u32], special: SpecialTokens) -> Result<String, Error> {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend_from_slice(self.shown(id, special)?);
        }
        if self.first_space == FirstSpace::Drop && bytes.first() == Some(&b' ') {
            bytes.remove(0);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn insert_token(&mut self, id: u32, token: KnownToken) {
        self.vocab_size = self.vocab_size.max(id as usize + 1);
        self.tokens.insert(id, token);
    }
}

impl Spelling {
    /// A text that is not spelled byte by byte.
    fn plain(self, text: &str) -> Vec<u8> {
        match self {
            Spelling::ByteLevel => text.into(),
            Spelling::SpaceMark => text.replace(SPACE_MARK, " ").into_bytes(),
        }
    }
}

/// The byte that `<0x0A>` stands for.
fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 { None } else { u8::from_str_radix(digits, 16).ok() }
}
