//! What a request goes on from: tokens, and how they were computed.
//!
//! It is not their keys and values. These may be kept in memory or lie in a file, both under its
//! id; where they are nowhere, the tokens are computed again, in the same chunks and as the same
//! kinds of rows, so that the same comes of it.

use std::sync::Arc;

use terrace_cache::TokenId;
use terrace_tiers::HandleId;

use crate::error::Error;
use crate::generate::request::{Priority, Request, Task};
use crate::generate::request_retention::RequestRetention;
use crate::generate::sampling_params::SamplingParams;
use crate::generate::seq_cache::SeqCache;

#[derive(Clone, Debug)]
pub struct Past {
    pub id: Option<HandleId>,
    pub tokens: Vec<TokenId>,
    /// Where tokens of a prompt and generated ones alternate; the first prompt's end at least.
    pub row_kind_ends: Vec<usize>,
    /// Tokens up to here are computed with the positions scaled alike; `usize::MAX` where positions
    /// do not follow the length.
    pub scaled_end: usize,
    pub cache: Option<Arc<SeqCache>>,
    pub cache_salt: String,
    pub origin: Origin,
    /// What its file has, if it has one.
    pub file: Option<PastFile>,
}

/// Who has computed keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Others may have: they came as a file.
    pub is_imported: bool,
    /// Another class of arithmetic than this engine's.
    pub arithmetic: Option<Vec<u8>>,
}

/// Pages in a file, table by table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastFile {
    /// Tokens whose keys and values are in the pages.
    pub computed: usize,
    pub tables: Vec<PastTable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastTable {
    pub page_tokens: usize,
    /// Tokens that have a slot, or had one.
    pub len: usize,
    /// Leading pages that no later token sees; all others are in the file.
    pub passed: usize,
}

impl Origin {
    /// Whether its pages, and those computed after it, may be found by their content.
    pub(crate) fn is_ours(&self) -> bool {
        *self == Origin::default()
    }
}

impl PastFile {
    pub fn pages(&self) -> usize {
        self.tables.iter().map(PastTable::pages).sum()
    }
}

impl PastTable {
    pub fn pages(&self) -> usize {
        self.len.div_ceil(self.page_tokens) - self.passed
    }
}

impl Past {
    /// The request whose prompt follows this past, with its cache and salt.
    pub fn extend(&self, request: Request) -> Result<Request, Error> {
        if request.cache.is_some() {
            return Err(Error::BadOption {
                option: "kv_cache",
                value: "given".into(),
                rule: "a request that goes on from a handle has the cache that is kept".into(),
            });
        }
        if request.prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        Ok(self.followed_by(request))
    }

    /// A request that computes this past again, and nothing after it.
    pub(crate) fn again(&self, priority: Priority) -> Request {
        let task = Task::Generate(SamplingParams::greedy(0));
        let (prompt, cache_salt, cache) = (Vec::new(), String::new(), None);
        let retention = RequestRetention::default();
        self.followed_by(Request { prompt, task, priority, cache_salt, cache, retention })
    }

    fn followed_by(&self, request: Request) -> Request {
        let past = self.tokens.len();
        let prompt = [&self.tokens[..], &request.prompt].concat();
        let cache = self.cache.as_ref();
        let cache = cache.map(|cache| Arc::new(cache.continued(past, prompt.len())));
        Request { prompt, cache, cache_salt: self.cache_salt.clone(), ..request }
    }

    /// Row kinds of a sequence whose prompt ends at `prompt_end`.
    pub(crate) fn row_kind_ends(&self, prompt_end: usize) -> Vec<usize> {
        let mut ends = self.row_kind_ends.clone();
        ends.extend([self.tokens.len(), prompt_end]);
        ends
    }
}
