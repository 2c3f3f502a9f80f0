//! Text to ids word by word, in memory for the ids and one word.
//!
//! The `tokenizers` crate keeps offsets and copies of the whole text for every step, some 200 bytes
//! for each of its bytes. Here each step hands its words on one at a time; merging is still the
//! crate's. The ids are the same: every step cuts where the crate's own does, and words longer
//! than a window are merged as [`LongWord`] says.

use std::iter;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokenizers::models::bpe::BPE;
use tokenizers::{AddedToken, Model, ModelWrapper, Tokenizer};

use super::added_tokens::{AddedTokens, TextSpan};
use super::ids::Ids;
use super::long_word::{LongWord, min_window};
use super::split::GPT_2;
use super::symbols::Symbols;
use super::text_step::TextStep;
use super::word_split::{Pattern, WordSplit};
use crate::error::Error;

/// Merging takes some 150 bytes for each byte of a window.
const WINDOW_BYTES: usize = 2048;

pub struct SegmentEncoder {
    /// Found in the text as it is.
    added: AddedTokens,
    normalizer: Vec<TextStep>,
    /// Found in what the normalizer has made of the rest.
    added_normalized: AddedTokens,
    pre_tokenizer: PreTokenizer,
    /// Longer words are merged window by window.
    window: usize,
    /// Bytes of the vocabulary's longest token.
    longest: usize,
    /// Bytes of a text that no token stands for more of.
    most_bytes_a_token: Option<usize>,
}

/// How what lies between added tokens becomes words, and what words are made of.
struct PreTokenizer {
    steps: Vec<TextStep>,
    splits: Vec<WordSplit>,
    symbols: Symbols,
}

impl SegmentEncoder {
    /// `None` for a tokenizer with a component that is not known to work word by word: another
    /// model than byte-pair encoding, one with a token for whatever it cannot spell, or that
    /// depends on chance, on text that lies behind, or on where a word begins and ends.
    pub fn new(tokenizer: &Tokenizer) -> Option<Self> {
        let bpe = merging(tokenizer)?;
        let normalizer = TextStep::of_normalizer(json(tokenizer.get_normalizer())?)?;
        let pre_tokenizer = PreTokenizer::read(json(tokenizer.get_pre_tokenizer())?, bpe)?;
        let symbols = &pre_tokenizer.symbols;
        let is_plain = bpe.dropout.is_none()
            && bpe.continuing_subword_prefix.is_none()
            && bpe.end_of_word_suffix.is_none()
            && (normalizer.is_empty() || pre_tokenizer.steps.is_empty());
        if !is_plain {
            return None;
        }
        let longest = bpe.get_vocab().keys().map(|text| symbols.spelled_bytes(text)).max()?;
        let (added, added_normalized) = added_tokens(tokenizer, &normalizer)?;
        let shrinks = normalizer.iter().any(TextStep::shrinks);
        let takes_space = added.0.takes_space() || added_normalized.0.takes_space();
        Some(SegmentEncoder {
            most_bytes_a_token: (!shrinks && !takes_space)
                .then_some(longest.max(added.1).max(added_normalized.1)),
            added: added.0,
            normalizer,
            added_normalized: added_normalized.0,
            pre_tokenizer,
            window: WINDOW_BYTES.max(min_window(longest)),
            longest,
        })
    }

    /// The fewest tokens that the text has, by its bytes.
    ///
    /// A token of the vocabulary stands for as many bytes as it has, as the vocabulary spells it:
    /// a mark for a space is longer than the space, but a text may contain the mark itself. Bytes
    /// that the vocabulary lacks are lost and do not count. There is no such bound where the text
    /// is shortened on the way, or where an added token takes the white space around it; then
    /// this is 0.
    pub fn least_tokens(&self, text: &str) -> usize {
        let kept_bytes = || self.pre_tokenizer.symbols.kept_bytes(text.as_bytes());
        self.most_bytes_a_token.map_or(0, |most| kept_bytes().div_ceil(most))
    }

    /// `tokenizer` is the one this was made from.
    pub fn encode(&self, tokenizer: &Tokenizer, text: &str, ids: &mut Ids) -> Result<(), Error> {
        let bpe = merging(tokenizer).expect("it was there when this was made");
        let mut run = TextRun { encoder: self, bpe, ids, is_start: true, spelled: String::new() };
        self.added.try_each_span(text, &mut |span| run.take(span))
    }
}

/// One text on its way.
struct TextRun<'a> {
    encoder: &'a SegmentEncoder,
    bpe: &'a BPE,
    ids: &'a mut Ids,
    /// Whether nothing of the text has been taken.
    is_start: bool,
    /// A word as the vocabulary writes it.
    spelled: String,
}

impl TextRun<'_> {
    fn take(&mut self, span: TextSpan<'_>) -> Result<(), Error> {
        let encoder = self.encoder;
        let mut take = |text: &str| {
            let mut take = |span: TextSpan<'_>| self.take_normalized(span);
            encoder.added_normalized.try_each_span(text, &mut take)
        };
        match span {
            TextSpan::Token(id) => self.push(id),
            TextSpan::Text(text) if encoder.normalizer.is_empty() => take(text),
            TextSpan::Text(text) => take(&TextStep::apply_all(&encoder.normalizer, text, false)),
        }
    }

    fn take_normalized(&mut self, span: TextSpan<'_>) -> Result<(), Error> {
        let is_start = std::mem::take(&mut self.is_start);
        let PreTokenizer { steps, splits, .. } = &self.encoder.pre_tokenizer;
        let mut take = |text: &str| try_each_word(splits, text, &mut |word| self.take_word(word));
        match span {
            TextSpan::Token(id) => self.push(id),
            TextSpan::Text(text) if steps.is_empty() => take(text),
            TextSpan::Text(text) => take(&TextStep::apply_all(steps, text, is_start)),
        }
    }

    fn push(&mut self, id: u32) -> Result<(), Error> {
        self.is_start = false;
        self.ids.extend(iter::once(id))
    }

    fn take_word(&mut self, word: &str) -> Result<(), Error> {
        let SegmentEncoder { window, longest, pre_tokenizer, .. } = self.encoder;
        let symbols = &pre_tokenizer.symbols;
        if *window < word.len() {
            let (text, bpe) = (&*symbols.kept(word.as_bytes()), self.bpe);
            let word = LongWord { bpe, symbols, text, window: *window, longest: *longest };
            return word.encode(self.ids);
        }
        let spelled = symbols.spell(word.as_bytes(), &mut self.spelled);
        let tokens = self.bpe.tokenize(spelled).map_err(Error::tokenise)?;
        self.ids.extend(tokens.iter().map(|token| token.id))
    }
}

/// The words that the steps leave, each step cutting those of the one before.
fn try_each_word(
    splits: &[WordSplit],
    text: &str,
    visit: &mut dyn FnMut(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    match splits {
        [] => visit(text),
        [first, rest @ ..] => {
            first.try_each_word(text, &mut |word| try_each_word(rest, word, visit))
        }
    }
}

/// A component of the tokenizer as `tokenizer.json` has it.
fn json(component: Option<&impl Serialize>) -> Option<Value> {
    serde_json::to_value(component).ok()
}

fn merging(tokenizer: &Tokenizer) -> Option<&BPE> {
    match tokenizer.get_model() {
        ModelWrapper::BPE(bpe) => Some(bpe),
        _ => None,
    }
}

/// The added tokens that are found before the normalizer and after it, each with the bytes of the
/// longest; `None` if the tokenizer's lists contradict each other.
fn added_tokens(
    tokenizer: &Tokenizer,
    normalizer: &[TextStep],
) -> Option<((AddedTokens, usize), (AddedTokens, usize))> {
    let (mut plain, mut normalized) = (Vec::new(), Vec::new());
    let tokens = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    for (&id, token) in tokens {
        if tokenizer.token_to_id(&token.content) != Some(id) || token.content.is_empty() {
            return None;
        }
        if token.normalized {
            let text = TextStep::apply_all(normalizer, &token.content, false);
            normalized.push((id, token, text));
        } else {
            plain.push((id, token, token.content.clone()));
        }
    }
    if tokenizer.get_added_vocabulary().get_vocab().len() != tokens.len() {
        return None;
    }
    let with_longest = |tokens: Vec<(u32, &AddedToken, String)>| {
        let longest = tokens.iter().map(|(.., text)| text.len()).max().unwrap_or(0);
        Some((AddedTokens::new(&tokens)?, longest))
    };
    Some((with_longest(plain)?, with_longest(normalized)?))
}

impl PreTokenizer {
    /// From `tokenizer.json`; `None` if a step is not known here.
    fn read(json: Value, bpe: &BPE) -> Option<Self> {
        let mut read =
            PreTokenizer { steps: Vec::new(), splits: Vec::new(), symbols: Symbols::Characters };
        if let Some(step) = serde_json::from_value::<Option<PreTokenizerStep>>(json).ok()? {
            read.add(step, bpe)?;
        }
        if let Symbols::Characters = read.symbols {
            read.symbols = Symbols::characters(bpe)?;
        }
        Some(read)
    }

    fn add(&mut self, step: PreTokenizerStep, bpe: &BPE) -> Option<()> {
        // Behind the step that writes bytes as characters others would see those.
        if matches!(self.symbols, Symbols::Bytes(_)) {
            return None;
        }
        match step {
            PreTokenizerStep::Sequence { pretokenizers } => {
                pretokenizers.into_iter().try_for_each(|step| self.add(step, bpe))?;
            }
            PreTokenizerStep::Split { pattern, behavior: Behavior::Isolated, invert: false } => {
                let SplitPattern::Regex(expression) = pattern;
                self.splits.push(WordSplit::Pattern(Pattern::new(&expression)?));
            }
            PreTokenizerStep::Digits { individual_digits: true } => {
                self.splits.push(WordSplit::EachDigit);
            }
            PreTokenizerStep::Digits { individual_digits: false } => {
                self.splits.push(WordSplit::Digits);
            }
            PreTokenizerStep::ByteLevel { add_prefix_space: false, use_regex } => {
                if use_regex {
                    self.splits.push(WordSplit::Pattern(Pattern::new(GPT_2)?));
                }
                self.symbols = Symbols::bytes(bpe)?;
            }
            PreTokenizerStep::Metaspace { replacement, prepend_scheme, split: false }
                if self.splits.is_empty() && self.steps.is_empty() =>
            {
                let content = replacement.to_string();
                self.steps.push(TextStep::Replace { pattern: " ".into(), content });
                let only_at_start = prepend_scheme == PrependScheme::First;
                if prepend_scheme != PrependScheme::Never {
                    self.steps.push(TextStep::PrependMark { mark: replacement, only_at_start });
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// Of `tokenizer.json`, as far as it is taken word by word.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum PreTokenizerStep {
    Sequence { pretokenizers: Vec<PreTokenizerStep> },
    Split { pattern: SplitPattern, behavior: Behavior, invert: bool },
    Digits { individual_digits: bool },
    ByteLevel { add_prefix_space: bool, use_regex: bool },
    Metaspace { replacement: char, prepend_scheme: PrependScheme, split: bool },
}

#[derive(Deserialize)]
enum SplitPattern {
    Regex(String),
}

#[derive(Deserialize)]
enum Behavior {
    Isolated,
}

#[derive(PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PrependScheme {
    First,
    Never,
    Always,
}

#[cfg(test)]
mod tests;
