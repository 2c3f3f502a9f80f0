//! Content keys of a user's pages: what a page holds, known by the ids of the whole history up to
//! its end.
//!
//! `hash(page) = XXH3-128(hash(page before) · ids of the page, i64 little-endian)`, where ids are
//! those of context, items and actions in the order of positions. The chain starts at a root that
//! holds everything else the bytes depend on:
//!
//! - `root = SHA-256("terrace user history 1", model fingerprint, class of arithmetic, page format,
//!   tenant, user)`, each field behind its length as a little-endian u64
//!
//! A key is the first 8 bytes of the SHA-256 of model, arithmetic and format, the first 8 bytes of
//! the root, and the hash: all pages of a model, and all of a user, are found by a prefix of their
//! keys. Ids come from the tenant's own requests and the root is not known outside, so a collision
//! is an accident of 128 bits.

use sha2::{Digest, Sha256};
use twox_hash::{XxHash3_64, XxHash3_128};

use super::user_key::UserKey;
use crate::kv::PageKey;

/// What the keys of all users of a model begin with.
#[derive(Clone, Debug)]
pub struct HistorySeed {
    fields: Vec<u8>,
    model: [u8; 8],
}

impl HistorySeed {
    /// `model` is the fingerprint of the model, `format` what says how pages hold numbers.
    pub fn new(model: &[u8; 32], arithmetic: &[u8], format: &[u8]) -> Self {
        let mut fields = Vec::new();
        for field in [b"terrace user history 1", &model[..], arithmetic, format] {
            push_field(&mut fields, field);
        }
        let model = first_8(&Sha256::digest(&fields));
        HistorySeed { fields, model }
    }

    /// What the keys of all users begin with.
    pub fn model_prefix(&self) -> [u8; 8] {
        self.model
    }

    pub fn root(&self, user: &UserKey) -> HistoryRoot {
        let mut fields = self.fields.clone();
        push_field(&mut fields, user.tenant.as_bytes());
        push_field(&mut fields, user.user.as_bytes());
        let root: [u8; 32] = Sha256::digest(&fields).into();
        let mut prefix = [0; 16];
        prefix[..8].copy_from_slice(&self.model);
        prefix[8..].copy_from_slice(&root[..8]);
        let start: [u8; 16] = root[16..].try_into().expect("half of 32 bytes");
        HistoryRoot { prefix, start: u128::from_le_bytes(start) }
    }
}

/// Where a user's chain starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRoot {
    prefix: [u8; 16],
    start: u128,
}

impl HistoryRoot {
    /// What the keys of all pages of the user begin with.
    pub fn prefix(&self) -> [u8; 16] {
        self.prefix
    }

    pub(super) fn key(&self, hash: u128) -> PageKey {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.prefix);
        bytes[16..].copy_from_slice(&hash.to_le_bytes());
        PageKey::from_bytes(bytes)
    }
}

/// The chain over one history.
#[derive(Clone, Debug)]
pub struct HistoryKeys {
    root: HistoryRoot,
    page_tokens: usize,
    tokens: usize,
    /// After each page; the last may be of a page that is not full.
    hashes: Vec<u128>,
}

impl HistoryKeys {
    /// Of all ids of a history, position by position.
    pub fn new(root: HistoryRoot, page_tokens: usize, ids: &[i64]) -> Self {
        assert!(0 < page_tokens, "a page holds at least one token");
        let mut hashes = Vec::with_capacity(ids.len().div_ceil(page_tokens));
        let mut bytes = Vec::new();
        let mut hash = root.start;
        for page in ids.chunks(page_tokens) {
            hash = chained(hash, page, &mut bytes);
            hashes.push(hash);
        }
        HistoryKeys { root, page_tokens, tokens: ids.len(), hashes }
    }

    pub fn tokens(&self) -> usize {
        self.tokens
    }

    pub fn root(&self) -> HistoryRoot {
        self.root
    }

    /// The hash of the chain after the first `tokens`, which must be ids of this history.
    pub(super) fn hash_at(&self, tokens: usize, ids: &[i64]) -> u128 {
        let (page, within) = (tokens / self.page_tokens, tokens % self.page_tokens);
        let before = if page == 0 { self.root.start } else { self.hashes[page - 1] };
        if within == 0 {
            return before;
        }
        if tokens == self.tokens {
            return self.hashes[page];
        }
        chained(before, &ids[page * self.page_tokens..tokens], &mut Vec::new())
    }

    /// Of the page that ends here, full or the last.
    pub(super) fn hash(&self, page: usize) -> u128 {
        self.hashes[page]
    }

    pub fn key(&self, page: usize) -> PageKey {
        self.root.key(self.hashes[page])
    }

    /// Full pages.
    pub fn full_pages(&self) -> usize {
        self.tokens / self.page_tokens
    }
}

/// What stands in a chain for an event whose rows depend on when it happened, and on when the one
/// after it did.
pub fn timed_event(item: i64, time: i64, next: i64) -> i64 {
    let bytes: Vec<u8> = [item, time, next].iter().flat_map(|it| it.to_le_bytes()).collect();
    XxHash3_64::oneshot(&bytes).cast_signed()
}

fn chained(before: u128, ids: &[i64], bytes: &mut Vec<u8>) -> u128 {
    let (head, id_bytes) = (size_of::<u128>(), size_of::<i64>());
    bytes.resize(head + id_bytes * ids.len(), 0);
    bytes[..head].copy_from_slice(&before.to_le_bytes());
    // Written so, it is a copy of memory.
    for (bytes, id) in bytes[head..].as_chunks_mut().0.iter_mut().zip(ids) {
        *bytes = id.to_le_bytes();
    }
    XxHash3_128::oneshot(bytes)
}

fn push_field(fields: &mut Vec<u8>, field: &[u8]) {
    fields.extend((field.len() as u64).to_le_bytes());
    fields.extend(field);
}

fn first_8(bytes: &[u8]) -> [u8; 8] {
    bytes[..8].try_into().expect("a digest is longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(tenant: &str, user: &str) -> HistoryRoot {
        HistorySeed::new(&[7; 32], b"class", b"bf16").root(&UserKey::new(tenant, user))
    }

    #[test]
    fn keys_depend_on_everything_before_and_on_whose_they_are() {
        let ids: Vec<i64> = (0..20).collect();
        let keys = HistoryKeys::new(root("", "anna"), 4, &ids);
        let mut edited = ids.clone();
        edited[5] = 99;
        let edited = HistoryKeys::new(root("", "anna"), 4, &edited);
        let same = |page: usize| keys.key(page) == edited.key(page);
        assert_eq!([0, 1, 2, 4].map(same), [true, false, false, false]);
        for other in [root("", "ben"), root("shop", "anna"), root("s", "hopanna")] {
            assert_ne!(HistoryKeys::new(other, 4, &ids).key(0), keys.key(0));
        }
        assert_eq!(keys.key(0).as_bytes()[..16], root("", "anna").prefix());
    }

    #[test]
    fn hashes_of_prefixes_are_those_of_shorter_histories() {
        let ids: Vec<i64> = (0..11).map(|id| id * 31).collect();
        let keys = HistoryKeys::new(root("", "anna"), 4, &ids);
        for tokens in 1..=ids.len() {
            let shorter = HistoryKeys::new(root("", "anna"), 4, &ids[..tokens]);
            let last = shorter.hash((tokens - 1) / 4);
            assert_eq!(keys.hash_at(tokens, &ids), last, "{tokens} tokens");
        }
    }
}
