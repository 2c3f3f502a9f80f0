//! Byte-pair encoding of a word of any length, window by window, in memory for one window.
//!
//! Merging takes, again and again, the pair of neighbours with the best rank, the leftmost of
//! equals. Until a merge crosses the border between two neighbouring tokens of a result, both
//! sides go on as they would alone. So a list of tokens is what merging the whole word gives if
//! every two neighbours of it are what merging the text of these two gives; and any two
//! neighbours in the result for any text are that.
//!
//! Each window therefore begins at a token's start inside the window before. If that token comes
//! out the same in both, the tokens before it and those from it on fit together, and every pair of
//! neighbours stands in one of the windows. Where it comes out otherwise, for the text behind the
//! first window reached back that far, the next window begins earlier.

use tokenizers::Model;
use tokenizers::models::bpe::BPE;

use super::ids::Ids;
use super::symbols::Symbols;
use crate::error::Error;

/// How far before its end a window is first cut, in longest tokens.
const OVERLAP_TOKENS: usize = 4;

pub struct LongWord<'a> {
    pub bpe: &'a BPE,
    pub symbols: &'a Symbols,
    /// Without bytes that the symbols lack.
    pub text: &'a [u8],
    /// At least twice the overlap of two windows, `min_window`.
    pub window: usize,
    /// Bytes of the longest token as the symbols spell it.
    pub longest: usize,
}

/// A window's tokens with their bytes.
struct Window {
    start: usize,
    tokens: Vec<(u32, usize)>,
}

/// Windows must be as long, so that none is a token of the vocabulary, which some models take as
/// it is without merging.
pub fn min_window(longest: usize) -> usize {
    2 * OVERLAP_TOKENS * longest
}

impl LongWord<'_> {
    pub fn encode(&self, ids: &mut Ids) -> Result<(), Error> {
        let before = ids.len();
        let mut window = self.window_at(0)?;
        while let Some((whole, next)) = self.after(&window)? {
            ids.extend(window.tokens[..whole].iter().map(|&(id, _)| id))?;
            match next {
                Some(next) => window = next,
                // No token stayed the same in any window: the word is merged as a whole.
                None => {
                    ids.truncate(before);
                    window = Window { start: 0, tokens: self.tokens(0, self.text.len())? };
                    break;
                }
            }
        }
        ids.extend(window.tokens.iter().map(|&(id, _)| id))
    }

    /// How many tokens of the window come before the next one, and the next; `None` if the window
    /// reaches the end of the word.
    fn after(&self, window: &Window) -> Result<Option<(usize, Option<Window>)>, Error> {
        let end = window.start + window.bytes();
        if end == self.text.len() {
            return Ok(None);
        }
        let mut overlap = OVERLAP_TOKENS * self.longest;
        while overlap < window.bytes() {
            let Some((tokens, start)) = self.last_start(window, end - overlap) else { break };
            let next = self.window_at(start)?;
            if next.tokens.first() == window.tokens.get(tokens) {
                return Ok(Some((tokens, Some(next))));
            }
            overlap *= 2;
        }
        Ok(Some((0, None)))
    }

    /// The last token of the window, but its first, that starts at `limit` at the latest, and not
    /// inside a symbol: its index and where it starts.
    fn last_start(&self, window: &Window, limit: usize) -> Option<(usize, usize)> {
        let mut start = window.start;
        let mut last = None;
        for (index, &(_, bytes)) in window.tokens.iter().enumerate() {
            if limit < start {
                break;
            }
            if 0 < index && self.symbols.is_border(self.text, start) {
                last = Some((index, start));
            }
            start += bytes;
        }
        last
    }

    fn window_at(&self, start: usize) -> Result<Window, Error> {
        let mut end = self.text.len().min(start + self.window);
        while !self.symbols.is_border(self.text, end) {
            end -= 1;
        }
        Ok(Window { start, tokens: self.tokens(start, end)? })
    }

    fn tokens(&self, start: usize, end: usize) -> Result<Vec<(u32, usize)>, Error> {
        let mut spelled = String::new();
        let spelled = self.symbols.spell(&self.text[start..end], &mut spelled);
        let tokens = self.bpe.tokenize(spelled).map_err(Error::tokenise)?;
        Ok(tokens.iter().map(|token| (token.id, self.symbols.bytes_of(token))).collect())
    }
}

impl Window {
    fn bytes(&self) -> usize {
        self.tokens.iter().map(|&(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokenizers::models::bpe::{Merges, Vocab};

    use super::*;

    /// Merges of any tokens that are there already, in any order: pairs that real vocabularies
    /// would never have, so that text acts on what lies far before it.
    fn merging(pairs: &[(usize, usize)], ignore_merges: bool) -> (BPE, usize) {
        let mut tokens: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let mut merges = Merges::new();
        for &(left, right) in pairs {
            let pair = (tokens[left % tokens.len()].clone(), tokens[right % tokens.len()].clone());
            let joined = pair.0.clone() + &pair.1;
            if joined.len() <= 12 && !tokens.contains(&joined) {
                tokens.push(joined);
                merges.push(pair);
            }
        }
        let longest = tokens.iter().map(String::len).max().expect("there are letters");
        let vocab: Vocab = tokens.into_iter().zip(0..).collect();
        let bpe = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(ignore_merges);
        (bpe.build().expect("all parts are tokens"), longest)
    }

    #[track_caller]
    fn check(bpe: &BPE, longest: usize, text: &str) {
        let want: Vec<u32> =
            bpe.tokenize(text).expect("merges").iter().map(|token| token.id).collect();
        let bytes = Symbols::bytes(bpe);
        for symbols in bytes.into_iter().chain([Symbols::Characters]) {
            let (symbols, window) = (&symbols, min_window(longest));
            let word = LongWord { bpe, symbols, text: text.as_bytes(), window, longest };
            let mut ids = Ids::new(usize::MAX);
            word.encode(&mut ids).expect("merges");
            assert_eq!(ids.into_vec(), want, "{text}");
        }
    }

    #[test]
    fn long_runs_are_merged_from_the_left() {
        let (bpe, longest) = merging(&[(0, 0), (3, 3), (4, 0), (1, 0), (0, 1)], false);
        for length in 1..400 {
            check(&bpe, longest, &"a".repeat(length));
            check(&bpe, longest, &format!("b{}b", "a".repeat(length)));
            check(&bpe, longest, &"ab".repeat(length));
        }
    }

    proptest! {
        #[test]
        fn windows_give_the_tokens_of_the_whole(
            pairs in prop::collection::vec((0..40usize, 0..40usize), 0..40),
            ignore_merges in any::<bool>(),
            text in prop_oneof!["[abc]{200,2000}", "a{1,9}(ab|abc|aab|b){200,600}"],
        ) {
            let (bpe, longest) = merging(&pairs, ignore_merges);
            check(&bpe, longest, &text);
        }
    }
}
