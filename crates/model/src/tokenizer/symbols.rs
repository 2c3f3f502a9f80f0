//! What merging begins with: the bytes of a word, or its characters.

use std::borrow::Cow;

use tokenizers::Model;
use tokenizers::Token;
use tokenizers::models::bpe::BPE;

use super::byte_level::byte_of;

pub enum Symbols {
    /// Each byte is a symbol, written as the character that stands for it. Bytes that the
    /// vocabulary lacks are lost, as if the text had none of them.
    Bytes(Box<[ByteSymbol; 256]>),
    /// Each character is a symbol, or several where only bytes can spell it.
    Characters,
}

#[derive(Clone, Copy)]
pub struct ByteSymbol {
    character: char,
    is_known: bool,
}

impl Symbols {
    /// Bytes as symbols; `None` for a model that does something else with bytes it does not know
    /// than to leave them out.
    pub fn bytes(bpe: &BPE) -> Option<Self> {
        let mut bytes = Box::new([ByteSymbol { character: '\0', is_known: false }; 256]);
        for character in '\0'..='\u{1FF}' {
            if let Some(byte) = byte_of(character) {
                let is_known = bpe.token_to_id(character.encode_utf8(&mut [0; 4])).is_some();
                bytes[usize::from(byte)] = ByteSymbol { character, is_known };
            }
        }
        let is_whole = bytes.iter().all(|byte| byte.is_known);
        let drops_others = bpe.unk_token.is_none() && !bpe.byte_fallback && !bpe.ignore_merges;
        (is_whole || drops_others).then_some(Symbols::Bytes(bytes))
    }

    /// Characters as symbols; `None` for a model that cannot spell all others by their bytes.
    pub fn characters(bpe: &BPE) -> Option<Self> {
        let is_known = |byte| bpe.token_to_id(&format!("<0x{byte:02X}>")).is_some();
        (bpe.byte_fallback && (0..=255u8).all(is_known)).then_some(Symbols::Characters)
    }

    /// The text without what is lost.
    pub fn kept<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        match self {
            Symbols::Bytes(bytes) if self.kept_bytes(text) < text.len() => {
                let is_known = |byte: &u8| bytes[usize::from(*byte)].is_known;
                text.iter().copied().filter(is_known).collect()
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// How many bytes of a text are not lost.
    pub fn kept_bytes(&self, text: &[u8]) -> usize {
        match self {
            Symbols::Bytes(bytes) => {
                text.iter().filter(|&&byte| bytes[usize::from(byte)].is_known).count()
            }
            Symbols::Characters => text.len(),
        }
    }

    /// `text` as the vocabulary writes it; borders are at its ends.
    pub fn spell<'b>(&self, text: &'b [u8], buffer: &'b mut String) -> &'b str {
        match self {
            Symbols::Bytes(bytes) => {
                buffer.clear();
                buffer.extend(text.iter().map(|&byte| bytes[usize::from(byte)].character));
                buffer
            }
            Symbols::Characters => str::from_utf8(text).expect("it is cut at characters"),
        }
    }

    /// Whether one symbol ends at `at` and another begins.
    pub fn is_border(&self, text: &[u8], at: usize) -> bool {
        match self {
            Symbols::Bytes(_) => true,
            // Bytes after a character's first are 10xxxxxx.
            Symbols::Characters => text.get(at).is_none_or(|&byte| byte & 0xC0 != 0x80),
        }
    }

    /// How many bytes of the text a token stands for.
    pub fn bytes_of(&self, token: &Token) -> usize {
        match self {
            Symbols::Bytes(_) => token.value.chars().count(),
            Symbols::Characters => token.offsets.1 - token.offsets.0,
        }
    }

    /// How many bytes a token of the vocabulary may stand for.
    pub fn spelled_bytes(&self, text: &str) -> usize {
        match self {
            Symbols::Bytes(_) => text.chars().count(),
            Symbols::Characters => text.len(),
        }
    }
}
