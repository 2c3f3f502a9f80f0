//! SentencePiece's BPE: pieces with scores, `▁` for spaces, bytes for what no piece can spell.

use std::collections::HashMap;

use tokenizers::Tokenizer;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence};

use super::token_bytes::SPACE_MARK;

/// A piece that text may become, with the score that says how early it is merged.
pub struct ScoredPiece<'a> {
    pub text: &'a str,
    pub score: f64,
}

/// What stands around the pieces.
pub struct Settings<'a> {
    /// What a character becomes that neither a piece nor bytes can spell.
    pub unknown: Option<&'a str>,
    /// Whether a text begins with a space that nobody wrote.
    pub space_prefix: bool,
}

/// `tokens` are all texts by id; `pieces` those of them that merging may reach.
pub fn build(
    tokens: &[&str],
    pieces: &[ScoredPiece<'_>],
    settings: &Settings<'_>,
) -> Result<Tokenizer, tokenizers::Error> {
    let vocab: Vocab = tokens.iter().zip(0..).map(|(&text, id)| (text.to_owned(), id)).collect();
    let mut builder =
        BPE::builder().vocab_and_merges(vocab, merges(pieces)).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = settings.unknown {
        builder = builder.unk_token(unknown.into());
    }
    let mut tokenizer = Tokenizer::new(builder.build()?);

    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if settings.space_prefix {
        steps.push(Prepend::new(SPACE_MARK.into()).into());
    }
    steps.push(Replace::new(" ", SPACE_MARK)?.into());
    tokenizer.with_normalizer(Some(Sequence::new(steps)));
    Ok(tokenizer)
}

/// All pairs of pieces that join to a piece, the best score first.
///
/// SentencePiece stores no merges: it joins, again and again, the two neighbours whose joint piece
/// has the best score. Among ways to make the same piece the longer left part goes first, as in
/// Hugging Face's conversion.
fn merges(pieces: &[ScoredPiece<'_>]) -> Merges {
    let order: HashMap<&str, usize> =
        pieces.iter().enumerate().map(|(order, piece)| (piece.text, order)).collect();
    let mut pairs = Vec::new();
    for piece in pieces {
        let splits = piece.text.char_indices().skip(1).map(|(at, _)| piece.text.split_at(at));
        let first = pairs.len();
        for (left, right) in splits {
            if let (Some(&left_order), Some(&right_order)) = (order.get(left), order.get(right)) {
                pairs.push((piece.score, left, right, (left_order, right_order)));
            }
        }
        pairs[first..].sort_by_key(|&(.., orders)| orders);
    }
    let chars = |text: &str| text.chars().count();
    pairs.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| chars(b.1).cmp(&chars(a.1)))
            .then_with(|| chars(b.2).cmp(&chars(a.2)))
    });
    pairs.into_iter().map(|(_, left, right, _)| (left.to_owned(), right.to_owned())).collect()
}
