//! The opening of a text that must stay, found by a pattern.

use regex::Regex;

use super::error::PolicyError;
use crate::TokenId;

#[derive(Debug)]
pub struct TextSegment {
    /// Marks the end.
    pub(crate) pattern: Regex,
    /// Whether what the pattern matches belongs to the segment.
    pub(crate) include_end: bool,
    /// In a batch whose rows are filled up on the left: whether what fills them stays too, so that
    /// the segment begins at the first slot.
    pub(crate) is_prefix: bool,
    pub(crate) pad_token: TokenId,
}

/// How a sequence begins.
#[derive(Clone, Copy, Default)]
pub struct Opening<'a> {
    /// The tokens of its first chunk.
    pub tokens: &'a [TokenId],
    pub text: Option<&'a dyn TokenText>,
}

/// Tokens as text and back, without special tokens.
pub trait TokenText {
    fn decode(&self, tokens: &[TokenId]) -> String;
    fn encode(&self, text: &str) -> Vec<TokenId>;
}

impl TextSegment {
    pub(super) fn pattern(pattern: &str) -> Result<Regex, PolicyError> {
        Regex::new(pattern).map_err(|error| PolicyError::BadArgument {
            argument: "end_initial_regex".into(),
            value: format!("{pattern:?}"),
            wanted: format!("a regular expression without look-around: {error}"),
        })
    }

    /// Tokens of the segment, 1 to `most`. Without a match the opening stays as far as it may.
    pub(super) fn protected_tokens(
        &self,
        opening: &Opening<'_>,
        most: usize,
    ) -> Result<usize, PolicyError> {
        let most = most.min(opening.tokens.len()).max(1);
        if opening.tokens.is_empty() {
            return Ok(most);
        }
        let text = opening.text.ok_or_else(|| PolicyError::TextSegment {
            why: "the sequence has no tokenizer".into(),
        })?;
        let Some(end) = self.end(&text.decode(opening.tokens)) else { return Ok(most) };
        // The first tokens whose text reaches the end; they are searched for by halves, for text
        // grows with tokens.
        let (mut short, mut long) = (0, most);
        while short + 1 < long {
            let middle = (short + long) / 2;
            let reaches = text.decode(&opening.tokens[..middle]).len() >= end;
            (short, long) = if reaches { (short, middle) } else { (middle, long) };
        }
        Ok(long)
    }

    /// Bytes of the text up to the segment's end.
    pub(crate) fn end(&self, text: &str) -> Option<usize> {
        let found = self.pattern.find(text)?;
        Some(if self.include_end { found.end() } else { found.start() })
    }
}

impl PartialEq for TextSegment {
    fn eq(&self, other: &Self) -> bool {
        let settings = |it: &Self| (it.include_end, it.is_prefix, it.pad_token);
        self.pattern.as_str() == other.pattern.as_str() && settings(self) == settings(other)
    }
}
