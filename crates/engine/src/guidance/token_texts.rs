//! The vocabulary as a tree of bytes, which a grammar is walked along.
//!
//! The bytes of a token are those the detokeniser shows, so what the grammar reads is what the user
//! gets. Special tokens are known by name only: no text allows them.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use terrace_model::Tokenizer;

use crate::request::TokenId;

/// `eos`: what ends an answer; at least one. `vocab`: how many logits there are, which may be more
/// than there are tokens.
pub(super) fn token_tree(tokenizer: &Tokenizer, eos: &[TokenId], vocab: usize) -> TokEnv {
    let ids = 0..TokenId::try_from(vocab).expect("token ids are 32 bits wide");
    let texts: Vec<Vec<u8>> = ids.map(|id| token_text(tokenizer, id)).collect();
    let tree = TokTrie::from(&TokRxInfo::new(vocab as u32, eos[0]), &texts).with_eos_tokens(eos);
    // The model chooses how a text is cut into tokens, as it does without a grammar.
    Arc::new(ApproximateTokEnv::new(tree))
}

/// Empty for tokens that are never allowed.
fn token_text(tokenizer: &Tokenizer, id: TokenId) -> Vec<u8> {
    let marker = TokTrie::SPECIAL_TOKEN_MARKER;
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    match tokenizer.is_special(id) {
        true => [&[marker], bytes.as_slice()].concat(),
        // The marker's byte is in no UTF-8 text, but half of the vocabularies have it as a token.
        false if bytes.contains(&marker) => Vec::new(),
        false => bytes,
    }
}
