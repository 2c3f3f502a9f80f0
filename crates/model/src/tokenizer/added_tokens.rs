//! Finds the tokens that stand beside a vocabulary (`<|im_end|>`) in a text, in order and without a
//! list of what was found: a text may be full of them.
//!
//! Follows `AddedVocabulary` of the `tokenizers` crate match by match, which keeps such lists.

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::AddedToken;

pub struct AddedTokens {
    finder: AhoCorasick,
    /// By pattern of the finder.
    tokens: Vec<FoundToken>,
}

struct FoundToken {
    id: u32,
    /// Whether white space before the token belongs to it.
    takes_space_before: bool,
    takes_space_after: bool,
}

/// A run of a text: one added token, or what lies between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSpan<'t> {
    Token(u32),
    Text(&'t str),
}

impl AddedTokens {
    /// Each token with the text that stands for it. `None` if a token must stand alone as a word,
    /// which depends on the text around it.
    pub fn new(tokens: &[(u32, &AddedToken, String)]) -> Option<Self> {
        if tokens.iter().any(|(_, token, _)| token.single_word) {
            return None;
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|(.., text)| text))
            .ok()?;
        let found = |&(id, token, _): &(u32, &AddedToken, String)| FoundToken {
            id,
            takes_space_before: token.lstrip,
            takes_space_after: token.rstrip,
        };
        Some(AddedTokens { finder, tokens: tokens.iter().map(found).collect() })
    }

    /// Whether a token may stand for any number of bytes: its own, and the white space beside it.
    pub fn takes_space(&self) -> bool {
        self.tokens.iter().any(|token| token.takes_space_before || token.takes_space_after)
    }

    /// Calls `visit` for each span in order, until it fails.
    pub fn try_each_span<'t, E>(
        &self,
        text: &'t str,
        visit: &mut dyn FnMut(TextSpan<'t>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done = 0;
        for found in self.finder.find_iter(text) {
            let token = &self.tokens[found.pattern()];
            let (mut start, mut end) = (found.start(), found.end());
            if token.takes_space_before {
                start = text[..start].trim_end().len().max(done);
            }
            if token.takes_space_after {
                end = text.len() - text[end..].trim_start().len();
            }
            if done < start {
                visit(TextSpan::Text(&text[done..start]))?;
            }
            visit(TextSpan::Token(token.id))?;
            done = end;
        }
        if done < text.len() {
            visit(TextSpan::Text(&text[done..]))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::collected;

    #[track_caller]
    fn check(tokens: &[AddedToken], text: &str, want: &[TextSpan<'_>]) {
        let tokens: Vec<_> =
            (0..).zip(tokens).map(|(id, token)| (id, token, token.content.clone())).collect();
        let finder = AddedTokens::new(&tokens).expect("no token is a word");
        assert_eq!(collected(|visit| finder.try_each_span(text, visit)), want);
    }

    #[test]
    fn the_longest_token_is_taken() {
        let tokens = ["<a>", "<a><b>"].map(|text| AddedToken::from(text, true));
        check(
            &tokens,
            "x<a><b><a>",
            &[TextSpan::Text("x"), TextSpan::Token(1), TextSpan::Token(0)],
        );
        check(&tokens, "", &[]);
    }

    #[test]
    fn white_space_goes_with_a_token_that_takes_it() {
        let tokens = [
            AddedToken::from("<l>", true).lstrip(true),
            AddedToken::from("<r>", true).rstrip(true),
        ];
        let want =
            [TextSpan::Text("a"), TextSpan::Token(0), TextSpan::Token(1), TextSpan::Text("b")];
        check(&tokens, "a \n<l><r>\t b", &want);
        check(&tokens, "<r>  <l>", &[TextSpan::Token(1), TextSpan::Token(0)]);
    }

    #[test]
    fn tokens_that_are_words_are_not_supported() {
        let token = AddedToken::from("<a>", true).single_word(true);
        assert!(AddedTokens::new(&[(0, &token, token.content.clone())]).is_none());
    }
}
