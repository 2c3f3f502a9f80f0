//! Text as token ids, and back.
//!
//! Splitting and merging is the `tokenizers` crate's work; a GGUF vocabulary is made into one of
//! its models when it is loaded. The way back is ours: every token is a run of bytes, a text is the
//! bytes of its tokens read as UTF-8, and a [`TokenStream`] gives the same text as it comes.

mod added_tokens;
mod byte_level;
mod folder;
mod gguf;
mod guarded;
mod ids;
mod long_word;
mod numbered;
mod segment_encoder;
mod sentence_piece;
mod special_tokens;
mod split;
mod symbols;
mod text_step;
mod token_bytes;
mod token_stream;
mod word_split;

use std::sync::Arc;

use tokenizers::ModelWrapper;

use crate::error::Error;
use ids::Ids;
use segment_encoder::SegmentEncoder;
pub use special_tokens::SpecialTokens;
use token_bytes::TokenBytes;
pub use token_stream::TokenStream;

pub struct Tokenizer {
    /// Text to ids, without the tokens that frame a text.
    model: tokenizers::Tokenizer,
    /// The same in less memory, where the model allows it.
    segments: Option<SegmentEncoder>,
    token_bytes: Arc<TokenBytes>,
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

/// The tokens with a meaning of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SpecialIds {
    bos: Option<u32>,
    eos: Vec<u32>,
}

impl Tokenizer {
    /// Special tokens written out in the text (`<|im_end|>`) become the tokens they name.
    pub fn encode(&self, text: &str, special: AddSpecial) -> Result<Vec<u32>, Error> {
        self.encode_within(text, special, usize::MAX)
    }

    /// As `encode`, for a text that may have at most `limit` tokens: a longer one is an error as
    /// soon as it is known to be longer, by its bytes before anything else.
    pub fn encode_within(
        &self,
        text: &str,
        special: AddSpecial,
        limit: usize,
    ) -> Result<Vec<u32>, Error> {
        let (prefix, suffix) = self.frame(special);
        let least = self.least_tokens(text).saturating_add(prefix.len() + suffix.len());
        if limit < least {
            return Err(Error::TooManyTokens { least, limit });
        }
        let mut ids = Ids::new(limit);
        ids.extend(prefix.iter().copied())?;
        self.encode_into(text, &mut ids)?;
        ids.extend(suffix.iter().copied())?;
        Ok(ids.into_vec())
    }

    /// As `encode` with special tokens, without the end of a text that has more than `limit`
    /// tokens; what stands behind a text stays.
    pub fn encode_start(&self, text: &str, limit: usize) -> Result<Vec<u32>, Error> {
        let (prefix, suffix) = self.frame(AddSpecial::Yes);
        let mut ids = Ids::new(limit.saturating_sub(suffix.len()).max(prefix.len()));
        ids.extend(prefix.iter().copied())?;
        match self.encode_into(text, &mut ids) {
            Ok(()) | Err(Error::TooManyTokens { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok([ids.into_vec().as_slice(), suffix].concat())
    }

    /// Of a text without what frames it.
    fn encode_into(&self, text: &str, ids: &mut Ids) -> Result<(), Error> {
        match &self.segments {
            Some(segments) => segments.encode(&self.model, text, ids),
            None => {
                let encoding = self.model.encode_fast(text, false).map_err(Error::tokenise)?;
                ids.extend(encoding.get_ids().iter().copied())
            }
        }
    }

    /// What stands before a text and behind it.
    fn frame(&self, special: AddSpecial) -> (&[u32], &[u32]) {
        match special {
            AddSpecial::Yes => (&self.prefix, &self.suffix),
            AddSpecial::No => (&[], &[]),
        }
    }

    /// The fewest tokens that the text can have by its bytes: 0 where they say nothing.
    pub fn least_tokens(&self, text: &str) -> usize {
        self.segments.as_ref().map_or(0, |segments| segments.least_tokens(text))
    }

    /// Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], special: SpecialTokens) -> Result<String, Error> {
        self.token_bytes.decode(ids, special)
    }

    /// Whether all ids are tokens of the vocabulary.
    pub fn check_known(&self, ids: &[u32]) -> Result<(), Error> {
        ids.iter().try_for_each(|&id| self.token_bytes.shown(id, SpecialTokens::Keep).map(|_| ()))
    }

    /// Decodes tokens as they come.
    pub fn stream(&self, special: SpecialTokens) -> TokenStream {
        TokenStream::new(Arc::clone(&self.token_bytes), special)
    }

    /// What a token alone stands for; U+FFFD where it is not a whole character.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.token_bytes.bytes(id).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The bytes a token stands for.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.token_bytes.bytes(id).map(<[u8]>::to_vec)
    }

    /// How it splits text: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
    pub fn kind(&self) -> &'static str {
        match self.model.get_model() {
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::Unigram(_) => "Unigram",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "WordLevel",
        }
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.token_bytes.vocab_size()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.special.bos
    }

    /// The tokens that end an output.
    pub fn eos(&self) -> &[u32] {
        &self.special.eos
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.token_bytes.is_special(id)
    }

    /// The chat template that came with the tokenizer.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }
}

/// What `each` passes to what it is given.
#[cfg(test)]
fn collected<T>(
    each: impl FnOnce(&mut dyn FnMut(T) -> Result<(), ()>) -> Result<(), ()>,
) -> Vec<T> {
    let mut all = Vec::new();
    let done = each(&mut |item| {
        all.push(item);
        Ok(())
    });
    assert_eq!(done, Ok(()));
    all
}
