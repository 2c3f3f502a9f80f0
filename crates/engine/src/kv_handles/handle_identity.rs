//! What handles of this engine are like, and whether another one may be used here.
//!
//! A manifest may come from anybody: whatever passes here can be loaded and gone on from without a
//! panic. Its pages are numbers, whose checksums prove nothing about who computed them.

use std::sync::Arc;

use terrace_cache::KvGroup;
use terrace_model::{DecoderSpec, Tokenizer};
use terrace_tiers::{HandleId, HandleManifest, TableManifest};

use crate::error::Error;
use crate::generate::past::{Origin, Past, PastFile, PastTable};
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_policy::SeqPolicy;
use crate::setup::kv_cache::CacheMaker;
use crate::text::PromptText;

pub(crate) struct HandleIdentity {
    /// The fingerprint of weights, architecture and rotary setting.
    pub(crate) model: [u8; 32],
    /// The class of arithmetic.
    pub(crate) arithmetic: Vec<u8>,
    pub(crate) page_bytes: usize,
    /// Of caches that keep every key and value as it is.
    pub(crate) kv_groups: Vec<KvGroup>,
    /// Positions follow the length.
    pub(crate) has_dynamic_rope: bool,
    pub(crate) vocab: usize,
    pub(crate) caches: Arc<CacheMaker>,
    pub(crate) tokenizer: Option<Arc<Tokenizer>>,
}

/// As people read it.
pub(crate) fn short_fingerprint(model: &[u8; 32]) -> String {
    model[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl HandleIdentity {
    pub(crate) fn new(
        model: [u8; 32],
        arithmetic: Vec<u8>,
        page_bytes: usize,
        kv_groups: &[KvGroup],
        spec: &DecoderSpec,
        caches: &Arc<CacheMaker>,
    ) -> Self {
        HandleIdentity {
            model,
            arithmetic,
            page_bytes,
            kv_groups: kv_groups.to_vec(),
            has_dynamic_rope: spec.dynamic_rope.is_some(),
            vocab: spec.vocab,
            caches: Arc::clone(caches),
            tokenizer: None,
        }
    }

    pub(crate) fn crosses_arithmetic(&self, arithmetic: &[u8]) -> bool {
        self.arithmetic != arithmetic
    }

    /// A handle as requests go on from it, or what differs here.
    pub(crate) fn past(&self, manifest: &HandleManifest) -> Result<Past, Error> {
        let id = manifest.id;
        self.check(manifest).map_err(|what| Error::OtherHandle { handle: id.to_string(), what })?;
        let cache = self.cache(manifest).map_err(|error| {
            let what = format!("its kv_cache cannot be made here: {error}");
            Error::OtherHandle { handle: id.to_string(), what }
        })?;
        let differs = |what: String| Error::OtherHandle { handle: id.to_string(), what };
        let file = self.file(manifest, cache.as_deref()).map_err(differs)?;
        let crosses = self.crosses_arithmetic(&manifest.arithmetic);
        Ok(Past {
            id: Some(id),
            tokens: manifest.tokens.clone(),
            row_kind_ends: narrow(&manifest.row_kind_ends),
            scaled_end: manifest.scaled_end.map_or(usize::MAX, |end| end as usize),
            cache,
            cache_salt: manifest.cache_salt.clone(),
            origin: Origin {
                is_imported: manifest.is_imported,
                arithmetic: crosses.then(|| manifest.arithmetic.clone()),
            },
            file: Some(file),
        })
    }

    /// The manifest of a handle to come; what is of its tokens is filled in later.
    pub(crate) fn manifest(&self, id: HandleId, name: String) -> HandleManifest {
        HandleManifest {
            id,
            name,
            owner: None,
            created_unix_ms: 0,
            expires_unix_ms: None,
            is_pinned: false,
            is_imported: false,
            model: self.model,
            arithmetic: self.arithmetic.clone(),
            page_bytes: self.page_bytes as u64,
            tokens: Vec::new(),
            computed: 0,
            row_kind_ends: Vec::new(),
            scaled_end: None,
            cache_salt: String::new(),
            kv_cache: None,
            chunk_ends: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// What differs in the whole, and what its lists cannot be.
    fn check(&self, manifest: &HandleManifest) -> Result<(), String> {
        if manifest.model != self.model {
            let [theirs, ours] = [&manifest.model, &self.model].map(short_fingerprint);
            return Err(format!(
                "it is of another model or rotary setting (fingerprint {theirs}, here {ours})"
            ));
        }
        let (theirs, ours) = (manifest.page_bytes, self.page_bytes);
        if theirs != ours as u64 {
            return Err(format!(
                "its pages have {theirs} bytes, those of this server {ours}; start it with the \
                 same --block-size and kv dtype"
            ));
        }
        let tokens = manifest.tokens.len();
        if tokens == 0 || manifest.computed == 0 || manifest.row_kind_ends.is_empty() {
            return Err("it holds no tokens".into());
        }
        if let Some(token) = manifest.tokens.iter().find(|token| self.vocab <= **token as usize) {
            return Err(format!("token id {token} is outside the vocabulary of {}", self.vocab));
        }
        match (manifest.scaled_end, self.has_dynamic_rope) {
            (Some(_), true) | (None, false) => Ok(()),
            (Some(_), false) => Err("its positions follow the length, here they do not".into()),
            (None, true) => Err("its positions do not follow the length, here they do".into()),
        }
    }

    /// Of pages of a cache; `None` keeps every key and value as it is.
    pub(crate) fn groups<'a>(&'a self, cache: Option<&'a SeqCache>) -> &'a [KvGroup] {
        cache.map_or(&self.kv_groups, |cache| &cache.groups)
    }

    fn cache(&self, manifest: &HandleManifest) -> Result<Option<Arc<SeqCache>>, Error> {
        let Some(options) = &manifest.kv_cache else { return Ok(None) };
        let text = self.tokenizer.as_deref().map(PromptText);
        let text = text.as_ref().map(|text| text as &dyn terrace_cache::policy::TokenText);
        self.caches.remake(options, &manifest.tokens, text, narrow(&manifest.chunk_ends))
    }

    fn file(
        &self,
        manifest: &HandleManifest,
        cache: Option<&SeqCache>,
    ) -> Result<PastFile, String> {
        let groups = self.groups(cache);
        if manifest.tables.len() != groups.len() {
            let (theirs, ours) = (manifest.tables.len(), groups.len());
            return Err(format!("it has {theirs} groups of layers, here there are {ours}"));
        }
        let computed = manifest.computed as usize;
        let policy = cache.and_then(|cache| cache.policy.as_ref());
        if let Some(policy) = policy
            && !is_chunk_end(policy, computed)
        {
            return Err(format!("{computed} tokens are computed, which is inside a chunk"));
        }
        let table = |(index, (table, group)): (usize, (&TableManifest, &KvGroup))| {
            let slots = policy.map(|policy| policy.rules[index].slots);
            check_table(table, group, computed, slots)
                .map_err(|what| format!("group {index} of its layers: {what}"))
        };
        let tables = manifest.tables.iter().zip(groups).enumerate().map(table);
        Ok(PastFile { computed, tables: tables.collect::<Result<_, _>>()? })
    }
}

fn is_chunk_end(policy: &SeqPolicy, computed: usize) -> bool {
    let last = policy.chunk_ends.last().copied().unwrap_or(0);
    last <= computed || policy.chunk_ends.binary_search(&computed).is_ok()
}

/// `slots` are those of a policy that evicts.
fn check_table(
    table: &TableManifest,
    group: &KvGroup,
    computed: usize,
    slots: Option<usize>,
) -> Result<PastTable, String> {
    let page_tokens = group.page_tokens();
    if table.page_tokens != page_tokens as u64 {
        let theirs = table.page_tokens;
        return Err(format!(
            "a page holds {theirs} tokens, here {page_tokens}; start the server with the same \
             --block-size"
        ));
    }
    if table.format != group.format_bytes() {
        return Err("the format of its pages differs (kv dtype, or slots of its kv_cache)".into());
    }
    let len = slots.map_or(computed, |slots| slots.min(computed));
    if table.len != len as u64 {
        return Err(format!("{} slots of {computed} tokens, {len} were expected", table.len));
    }
    let pages = len.div_ceil(page_tokens);
    let passed = table.pages.first().map_or(pages, |first| *first as usize);
    // Ascending and below `pages`: without a gap exactly if there are so many.
    let has_gap = table.pages.len() != pages - passed;
    let visible = match slots {
        Some(_) => 0,
        None => group.first_visible(computed) / page_tokens,
    };
    if has_gap || visible < passed {
        return Err(format!("{} pages of {pages}, some are missing", table.pages.len()));
    }
    Ok(PastTable { page_tokens, len, passed })
}

fn narrow(numbers: &[u64]) -> Vec<usize> {
    numbers.iter().map(|number| *number as usize).collect()
}
