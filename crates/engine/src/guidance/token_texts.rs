//! The vocabulary as a grammar sees it: the bytes of each token, and the tree of them that a
//! grammar is walked along.
//!
//! The bytes of a token are those the detokeniser shows, so what the grammar reads is what the user
//! gets. Special tokens are known by name only: no text allows them.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use terrace_model::Tokenizer;

use terrace_cache::TokenId;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TokenTexts {
    /// One for each logit; empty for tokens that are never allowed.
    pub texts: Vec<Vec<u8>>,
    /// What ends an output; at least one.
    pub eos: Vec<TokenId>,
}

impl TokenTexts {
    /// `vocab`: how many logits there are, which may be more than there are tokens.
    pub fn of(tokenizer: &Tokenizer, eos: &[TokenId], vocab: usize) -> Self {
        let ids = 0..TokenId::try_from(vocab).expect("token ids are 32 bits wide");
        let texts = ids.map(|id| token_text(tokenizer, id)).collect();
        TokenTexts { texts, eos: eos.to_vec() }
    }

    pub fn tree(&self) -> TokEnv {
        let info = TokRxInfo::new(self.texts.len() as u32, self.eos[0]);
        let tree = TokTrie::from(&info, &self.texts).with_eos_tokens(&self.eos);
        // The model chooses how a text is cut into tokens, as it does without a grammar.
        Arc::new(ApproximateTokEnv::new(tree))
    }
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
