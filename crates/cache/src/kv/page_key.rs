//! Content keys: what a full page holds, known by the tokens of its whole prefix.
//!
//! `key(page) = SHA-256(key(page before) · tokens of the page, u32 little-endian)`. Keys and values
//! of a token depend on all tokens before it, so two pages may be exchanged exactly when their keys
//! are equal. The chain starts at a root that holds everything else the bytes depend on:
//!
//! - `seed = fields("terrace kv prefix 2", model fingerprint, class of arithmetic)`
//! - `root = fields(seed, cache format and layers of the group, the caller's salt)`
//! - a page with generated tokens, where these are computed otherwise than a prompt's:
//!   `fields("generated from", key as above, tokens of the page before the first generated, u64)`
//!
//! `fields` is the SHA-256 of each field behind its length as a little-endian u64. The fields'
//! bytes are stable and documented: `terrace_model::ModelFingerprint`,
//! [`ArithmeticClass::to_bytes`] and `group_bytes.rs`. SHA-256, because a collision would serve one
//! user with another user's context.

use sha2::{Digest, Sha256};
use terrace_kernels::ArithmeticClass;

use crate::TokenId;
use crate::kv::KvGroup;
use crate::kv::group_bytes::group_bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey([u8; 32]);

impl PageKey {
    /// The key of the page that holds `tokens` after the prefix that `self` stands for.
    pub fn next(&self, tokens: &[TokenId]) -> PageKey {
        let mut hash = Sha256::new_with_prefix(self.0);
        for token in tokens {
            hash.update(token.to_le_bytes());
        }
        PageKey(hash.finalize().into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A key that was written down.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        PageKey(bytes)
    }

    /// Eight of its bytes, where two that agree do no harm.
    pub fn short(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// As [`next`](Self::next) for a page whose tokens from `generated` on were generated, where
    /// that makes a difference to what it holds.
    fn next_generated(&self, tokens: &[TokenId], generated: usize) -> PageKey {
        let page = self.next(tokens);
        hash_fields(&[b"generated from", &page.0, &(generated as u64).to_le_bytes()])
    }
}

/// Where all key chains of one engine start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixSeed(PageKey);

impl PrefixSeed {
    /// `model` is the model's fingerprint.
    pub fn new(model: &[u8; 32], arithmetic: &ArithmeticClass) -> Self {
        PrefixSeed(hash_fields(&[b"terrace kv prefix 2", model, &arithmetic.to_bytes()]))
    }

    /// The root of a sequence's chain in `group`; requests share pages only under the same salt.
    pub fn root(&self, group: &KvGroup, salt: &str) -> PageKey {
        hash_fields(&[&self.0.0, &group_bytes(group), salt.as_bytes()])
    }
}

/// The keys of one sequence's full pages in one group, made as the tokens become known.
///
/// They outlive the pages: a preempted sequence finds its content again without hashing twice.
#[derive(Clone, Debug)]
pub struct PageKeys {
    page_tokens: usize,
    root: PageKey,
    keys: Vec<PageKey>,
    /// Tokens from here on are computed otherwise than those of a prompt.
    generated_from: usize,
}

impl PageKeys {
    pub fn new(root: PageKey, page_tokens: usize) -> Self {
        assert!(0 < page_tokens, "a page holds at least one token");
        PageKeys { page_tokens, root, keys: Vec::new(), generated_from: usize::MAX }
    }

    /// For a device that computes generated tokens otherwise than a prompt's: pages with tokens
    /// from `generated_from` on are not taken for a prompt's with the same tokens.
    #[must_use]
    pub fn tell_apart(self, generated_from: usize) -> Self {
        assert!(self.keys.is_empty(), "before the first key");
        PageKeys { generated_from, ..self }
    }

    /// Makes the keys of the pages that `tokens`, counted from the sequence's start, fill.
    pub fn extend(&mut self, tokens: &[TokenId]) {
        for page in tokens.chunks_exact(self.page_tokens).skip(self.keys.len()) {
            let parent = self.keys.last().unwrap_or(&self.root);
            let start = self.keys.len() * self.page_tokens;
            let key = match self.generated_from < start + self.page_tokens {
                true => parent.next_generated(page, self.generated_from.saturating_sub(start)),
                false => parent.next(page),
            };
            self.keys.push(key);
        }
    }

    /// One key for each full page, first page first.
    pub fn as_slice(&self) -> &[PageKey] {
        &self.keys
    }
}

/// Each field goes in with its length, so that no two lists of fields look alike.
fn hash_fields(fields: &[&[u8]]) -> PageKey {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    }
    PageKey(hash.finalize().into())
}
