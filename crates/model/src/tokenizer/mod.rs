//! Text as token ids, and back.
//!
//! Splitting and merging is the `tokenizers` crate's work; a GGUF vocabulary is turned into one of
//! its models when it is loaded. The way back is ours: every token is a run of bytes, a text is the
//! bytes of its tokens read as UTF-8, and a [`TokenStream`] gives the same text piece by piece.

mod byte_level;
mod folder;
mod gguf;
mod numbered;
mod pieces;
mod sentence_piece;
mod split;
mod stream;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::gguf::GgufFile;
use pieces::Pieces;
pub use stream::TokenStream;

pub struct Tokenizer {
    /// Text to ids, without the tokens that frame a text.
    model: tokenizers::Tokenizer,
    pieces: Arc<Pieces>,
    special: SpecialIds,
    /// What the model wants in front of a text, and behind it.
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    chat_template: Option<String>,
}

/// Whether a text is framed with the tokens the model wants around it (BOS, mostly).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddSpecial {
    Yes,
    No,
}

/// Whether special tokens are left out of a decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    Skip,
    Keep,
}

/// The tokens with a meaning of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SpecialIds {
    bos: Option<u32>,
    eos: Vec<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and what the files beside it say about special tokens.
    pub fn from_file(tokenizer_json: &Path) -> Result<Tokenizer, Error> {
        folder::read(tokenizer_json)
    }

    pub fn from_gguf(file: &GgufFile) -> Result<Tokenizer, Error> {
        gguf::read(file)
    }

    /// Special tokens written out in the text (`<|im_end|>`) become the tokens they name.
    pub fn encode(&self, text: &str, special: AddSpecial) -> Result<Vec<u32>, Error> {
        let encoding = self
            .model
            .encode_fast(text, false)
            .map_err(|error| Error::Tokenise { problem: error.to_string() })?;
        Ok(match special {
            AddSpecial::Yes => [&self.prefix, encoding.get_ids(), &self.suffix].concat(),
            AddSpecial::No => encoding.get_ids().to_vec(),
        })
    }

    /// Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], special: SpecialTokens) -> Result<String, Error> {
        self.pieces.decode(ids, special)
    }

    /// Decodes tokens as they come.
    pub fn stream(&self, special: SpecialTokens) -> TokenStream {
        TokenStream::new(Arc::clone(&self.pieces), special)
    }

    /// What a token alone stands for; U+FFFD where it is a part of a character.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.pieces.bytes(id).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The bytes a token stands for.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.pieces.bytes(id).map(<[u8]>::to_vec)
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.pieces.vocab_size()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.special.bos
    }

    /// The tokens that end an answer.
    pub fn eos(&self) -> &[u32] {
        &self.special.eos
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.pieces.is_special(id)
    }

    /// The chat template that came with the tokenizer.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }
}

/// Runs code of the `tokenizers` crate on a file that may be broken: the crate panics on some
/// (a merge shorter than its prefix, say), and a broken file must be an error.
fn guarded<T>(
    path: &Path,
    load: impl FnOnce() -> Result<T, tokenizers::Error>,
) -> Result<T, Error> {
    let problem = match catch_unwind(AssertUnwindSafe(load)) {
        Ok(Ok(loaded)) => return Ok(loaded),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the tokenizer's parts contradict each other".into(),
    };
    Err(Error::Malformed { path: path.into(), problem })
}
