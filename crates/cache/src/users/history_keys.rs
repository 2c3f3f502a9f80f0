//! Content keys of a user's pages: what a page holds, known by the ids of the whole history up to
//! its end.
//!
//! `hash(page) = XXH3-128(hash(page before) · ids of the page, i64 little-endian)`, where ids are
//! those of context, items and actions in the order of positions. The chain starts at a root that
//! holds everything else the bytes depend on:
//!
//! - `owner = SHA-256("terrace user history 2", model's name, tenant, user)`, each field behind its
//!   length as a little-endian u64
//! - `content = SHA-256(fingerprint of the layers, class of arithmetic, page format, hash of the
//!   embedding tables)`, as above
//! - `root = SHA-256(owner's fields, content)`
//!
//! A key is the first 8 bytes of the SHA-256 of the model's name, the first 8 bytes of the owner,
//! and the hash: all pages of a model, and all of a user, are found by a prefix of their keys,
//! whatever checkpoint they were computed with. Ids come from the tenant's own requests and the
//! root is not known outside, so a collision is an accident of 128 bits.

use sha2::{Digest, Sha256};
use twox_hash::{XxHash3_64, XxHash3_128};

use super::user_key::UserKey;
use crate::kv::PageKey;

/// What the keys of all users of a model begin with.
#[derive(Clone, Debug)]
pub struct HistorySeed {
    /// After the model's name.
    scope: Sha256,
    content: [u8; 32],
    generation: u32,
}

/// What the bytes of pages depend on, beside the history.
#[derive(Clone, Copy, Debug)]
pub struct PageContent<'a> {
    /// The fingerprint of the model's layers.
    pub layers: &'a [u8],
    pub arithmetic: &'a [u8],
    /// How pages hold numbers.
    pub format: &'a [u8],
    /// The hash of the embedding tables.
    pub tables: &'a [u8],
}

impl HistorySeed {
    /// `name` is the model's, whatever its version; `generation` counts versions of its tables.
    pub fn new(name: &str, content: PageContent<'_>, generation: u32) -> Self {
        let scope = fields([b"terrace user history 2", name.as_bytes()]);
        let scope = Sha256::new_with_prefix(scope);
        let PageContent { layers, arithmetic, format, tables } = content;
        let content = Sha256::digest(fields([layers, arithmetic, format, tables])).into();
        HistorySeed { scope, content, generation }
    }

    /// What the keys of all users begin with.
    pub fn model_prefix(&self) -> [u8; 8] {
        first_8(&self.model_mark())
    }

    /// What records of the model are marked with, whatever its version: their keys say the rest.
    pub fn model_mark(&self) -> [u8; 32] {
        self.scope.clone().finalize().into()
    }

    pub fn root(&self, user: &UserKey) -> HistoryRoot {
        let user = fields([user.tenant.as_bytes(), user.user.as_bytes()]);
        let owner = self.scope.clone().chain_update(user);
        let root: [u8; 32] = owner.clone().chain_update(self.content).finalize().into();
        let mut prefix = [0; 16];
        prefix[..8].copy_from_slice(&self.model_prefix());
        prefix[8..].copy_from_slice(&first_8(&owner.finalize()));
        let start: [u8; 16] = root[16..].try_into().expect("half of 32 bytes");
        let generation = self.generation;
        HistoryRoot { prefix, start: u128::from_le_bytes(start), generation }
    }
}

/// Where a user's chain starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRoot {
    prefix: [u8; 16],
    start: u128,
    generation: u32,
}

impl HistoryRoot {
    /// What the keys of all pages of the user begin with.
    pub fn prefix(&self) -> [u8; 16] {
        self.prefix
    }

    /// Of the embedding tables.
    pub fn generation(&self) -> u32 {
        self.generation
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
        Self::continued(root, page_tokens, ids, std::iter::empty())
    }

    /// As [`new`](Self::new), where the hashes of the first full pages are known.
    pub(super) fn continued(
        root: HistoryRoot,
        page_tokens: usize,
        ids: &[i64],
        known: impl Iterator<Item = u128>,
    ) -> Self {
        assert!(0 < page_tokens, "a page holds at least one token");
        let mut hashes = Vec::with_capacity(ids.len().div_ceil(page_tokens));
        hashes.extend(known);
        let mut bytes = Vec::new();
        let mut hash = hashes.last().copied().unwrap_or(root.start);
        for page in ids.chunks(page_tokens).skip(hashes.len()) {
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

/// Each field behind its length.
fn fields<const COUNT: usize>(fields: [&[u8]; COUNT]) -> Vec<u8> {
    let with_length =
        fields.iter().flat_map(|field| [&(field.len() as u64).to_le_bytes()[..], field].concat());
    with_length.collect()
}

fn first_8(bytes: &[u8]) -> [u8; 8] {
    bytes[..8].try_into().expect("a digest is longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(tenant: &str, user: &str) -> HistoryRoot {
        seed(b"tables", 0).root(&UserKey::new(tenant, user))
    }

    fn seed(tables: &[u8], generation: u32) -> HistorySeed {
        let content = PageContent { layers: &[7; 32], arithmetic: b"a", format: b"bf16", tables };
        HistorySeed::new("feed", content, generation)
    }

    #[test]
    fn versions_have_other_keys_with_the_same_beginning() {
        let (anna, ids) = (UserKey::new("", "anna"), [1, 2, 3, 4]);
        let [old, new] = [seed(b"tables", 0), seed(b"others", 1)].map(|seed| seed.root(&anna));
        assert_eq!((old.prefix(), old.generation()), (root("", "anna").prefix(), 0));
        assert_eq!((new.prefix(), new.generation()), (old.prefix(), 1));
        let key = |root| HistoryKeys::new(root, 4, &ids).key(0);
        assert_ne!(key(old), key(new));
        assert_eq!(old.prefix()[..8], seed(b"others", 1).model_prefix());
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
        for known in 0..=2 {
            let hashes = keys.hashes.iter().take(known).copied();
            let continued = HistoryKeys::continued(root("", "anna"), 4, &ids, hashes);
            assert_eq!(continued.hashes, keys.hashes, "{known} known");
        }
    }
}
