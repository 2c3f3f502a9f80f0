//! Byte-level BPE, as GPT-2 introduced it: every byte is written as a printable character, so a
//! vocabulary of texts can spell any bytes.

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

use super::split::SplitRule;

/// The model for a vocabulary and its merges, each merge being two texts with a space between.
pub fn build(
    tokens: &[&str],
    merges: &[&str],
    rule: &SplitRule,
) -> Result<Tokenizer, tokenizers::Error> {
    let vocab: Vocab = tokens.iter().zip(0..).map(|(&text, id)| (text.to_owned(), id)).collect();
    let merges = merges
        .iter()
        .map(|merge| merge.split_once(' ').ok_or_else(|| format!("merge {merge:?} is one text")))
        .map(|pair| pair.map(|(left, right)| (left.to_owned(), right.to_owned())))
        .collect::<Result<_, _>>()?;
    let bpe =
        BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(rule.ignore_merges).build()?;

    let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
    for &pattern in rule.patterns {
        let pattern = SplitPattern::Regex(pattern.into());
        steps.push(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?.into());
    }
    let as_bytes = ByteLevel::default().add_prefix_space(false).use_regex(false);
    steps.push(as_bytes.into());

    let mut tokenizer = Tokenizer::new(bpe);
    tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
    Ok(tokenizer)
}

/// The byte a character of such a vocabulary stands for.
///
/// Printable Latin-1 stands for itself; the 68 other bytes follow from U+0100 on, in order.
pub fn byte_of(character: char) -> Option<u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u32::from(character) {
        code @ 0..=0xFF => Some(code as u8).filter(|&byte| printable(byte)),
        code => (0..=255u8).filter(|&byte| !printable(byte)).nth(code as usize - 0x100),
    }
}
