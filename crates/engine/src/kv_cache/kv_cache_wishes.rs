//! A cache in a user's words, from a command line, a file or a request; what is not said is `None`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terrace_cache::policy::{ArgValue, KvCacheOptions, PolicyArgs};

/// The options below `kv_cache`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KvCacheWishes {
    /// `{policy}-{buffer}`, or `{policy}-{buffer of keys}+{buffer of values}`.
    pub name: Option<String>,
    pub cache_length: Option<Lengths>,
    pub chunk_size: Option<usize>,
    pub randomize_chunk_sizes: Option<bool>,
    /// Arguments of the policy.
    pub cache_kwargs: BTreeMap<String, KwArg>,
    /// Arguments that may stand here too.
    pub grace_period: Option<usize>,
    pub init_grace_tokens: Option<usize>,
    pub normalize_scores: Option<bool>,
    pub compat: Option<String>,
    /// Write down which slot each token went to.
    pub replay_log: Option<bool>,
}

/// Slots of every layer, or of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Lengths {
    One(usize),
    EachLayer(Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KwArg {
    Flag(bool),
    Number(f64),
    Text(String),
}

impl KvCacheWishes {
    pub fn is_empty(&self) -> bool {
        *self == KvCacheWishes::default()
    }

    /// These, and where they say nothing what `others` say. Arguments belong to a policy: those of
    /// another one than is named here do not count.
    #[must_use]
    pub fn or(&self, others: &KvCacheWishes) -> KvCacheWishes {
        let same_policy = self.name.is_none() || self.name == others.name;
        let arguments = if same_policy { others.arguments() } else { BTreeMap::new() };
        KvCacheWishes {
            name: self.name.clone().or(others.name.clone()),
            cache_length: self.cache_length.clone().or(others.cache_length.clone()),
            chunk_size: self.chunk_size.or(others.chunk_size),
            randomize_chunk_sizes: self.randomize_chunk_sizes.or(others.randomize_chunk_sizes),
            cache_kwargs: arguments.into_iter().chain(self.arguments()).collect(),
            compat: self.compat.clone().or(others.compat.clone()),
            replay_log: self.replay_log.or(others.replay_log),
            ..KvCacheWishes::default()
        }
    }

    /// Everything decided; `lengths` and `chunk_size` are for who does not say.
    pub(super) fn options(&self, lengths: usize, chunk_size: usize) -> KvCacheOptions {
        let arguments = self.arguments().into_iter().map(|(name, value)| (name, value.into()));
        KvCacheOptions {
            name: self.name.clone().unwrap_or_else(|| DENSE.to_owned()),
            cache_length: match &self.cache_length {
                None => vec![lengths],
                Some(Lengths::One(length)) => vec![*length],
                Some(Lengths::EachLayer(lengths)) => lengths.clone(),
            },
            chunk_size: self.chunk_size.unwrap_or(chunk_size),
            randomize_chunk_sizes: self.randomize_chunk_sizes.unwrap_or(false),
            cache_kwargs: PolicyArgs::new(arguments),
            compat: self.compat.clone(),
        }
    }

    fn arguments(&self) -> BTreeMap<String, KwArg> {
        let count = |count: usize| KwArg::Number(count as f64);
        let short = [
            ("grace_period", self.grace_period.map(count)),
            ("init_grace_tokens", self.init_grace_tokens.map(count)),
            ("normalize_scores", self.normalize_scores.map(KwArg::Flag)),
        ];
        let short = short.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.cache_kwargs.clone().into_iter().chain(short).collect()
    }
}

/// The cache of who asks for none.
const DENSE: &str = "dense-default";

impl From<KwArg> for ArgValue {
    fn from(value: KwArg) -> Self {
        match value {
            KwArg::Flag(flag) => ArgValue::Flag(flag),
            KwArg::Number(number) => ArgValue::Number(number),
            KwArg::Text(text) => ArgValue::Text(text),
        }
    }
}
