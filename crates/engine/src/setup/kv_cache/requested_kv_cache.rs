//! A cache in a user's words, from a command line, a file or a request; what is not said is `None`.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use terrace_cache::policy::{
    ArgValue, KvCacheOptions, KvCacheSpec, Policies, PolicyArgs, PolicyError,
};

/// The options below `kv_cache`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object of options")]
pub struct RequestedKvCache {
    /// `{policy}-{buffer}`, or `{policy}-{buffer of keys}+{buffer of values}`.
    pub name: Option<String>,
    pub cache_length: Option<Lengths>,
    #[serde(deserialize_with = "chunk_size")]
    pub chunk_size: Option<usize>,
    pub randomize_chunk_sizes: Option<bool>,
    /// Arguments of the policy.
    pub cache_kwargs: BTreeMap<String, KwArg>,
    /// Arguments that may stand here too.
    #[serde(deserialize_with = "grace_period")]
    pub grace_period: Option<usize>,
    #[serde(deserialize_with = "init_grace_tokens")]
    pub init_grace_tokens: Option<usize>,
    pub normalize_scores: Option<bool>,
    pub compat: Option<String>,
    /// Write down which slot each token went to.
    pub replay_log: Option<bool>,
}

/// Slots of every layer, or of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "cache_length must be a whole number from 1, or a list of one for each layer"
)]
pub enum Lengths {
    One(usize),
    EachLayer(Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "an argument in cache_kwargs must be true or false, a number or a text"
)]
pub enum KwArg {
    Flag(bool),
    Number(f64),
    Text(String),
}

impl RequestedKvCache {
    pub fn is_empty(&self) -> bool {
        *self == RequestedKvCache::default()
    }

    /// These, and where they say nothing what `others` say. Arguments belong to a policy: those of
    /// another one than is named here do not count.
    #[must_use]
    pub fn or(&self, others: &RequestedKvCache) -> RequestedKvCache {
        let same_policy = self.name.is_none() || self.name == others.name;
        let arguments = if same_policy { others.arguments() } else { BTreeMap::new() };
        RequestedKvCache {
            name: self.name.clone().or(others.name.clone()),
            cache_length: self.cache_length.clone().or(others.cache_length.clone()),
            chunk_size: self.chunk_size.or(others.chunk_size),
            randomize_chunk_sizes: self.randomize_chunk_sizes.or(others.randomize_chunk_sizes),
            cache_kwargs: arguments.into_iter().chain(self.arguments()).collect(),
            compat: self.compat.clone().or(others.compat.clone()),
            replay_log: self.replay_log.or(others.replay_log),
            ..RequestedKvCache::default()
        }
    }

    /// What a cache of these slots was made of: these options, of which none is left to a server's
    /// defaults. Logs are not asked for again.
    pub(super) fn complete(&self, lengths: &[usize]) -> Value {
        let lengths = match lengths {
            [length] => Lengths::One(*length),
            lengths => Lengths::EachLayer(lengths.to_vec()),
        };
        let name = self.name.clone().unwrap_or_else(|| DENSE.to_owned());
        let complete = RequestedKvCache {
            name: Some(name),
            cache_length: Some(lengths),
            replay_log: None,
            ..self.clone()
        };
        let mut value = serde_json::to_value(complete).expect("options are plain data");
        if let Value::Object(options) = &mut value {
            options.retain(|_, option| !option.is_null());
        }
        value
    }

    /// The cache of a model whose layers have these widths of keys and values. `lengths`, and
    /// chunks of `chunk_size` or as long as the cache allows, are for who does not say.
    pub fn spec(
        &self,
        lengths: usize,
        chunk_size: usize,
        policies: &Policies,
        head_dims: &[[usize; 2]],
    ) -> Result<KvCacheSpec, PolicyError> {
        let spec =
            |chunk_size| KvCacheSpec::new(&self.options(lengths, chunk_size), policies, head_dims);
        match spec(chunk_size) {
            Err(PolicyError::ChunkSize { most, .. }) if self.chunk_size.is_none() => {
                spec(most.max(1))
            }
            other => other,
        }
    }

    /// Everything decided; `lengths` and `chunk_size` are for who does not say.
    fn options(&self, lengths: usize, chunk_size: usize) -> KvCacheOptions {
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

fn chunk_size<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    count("chunk_size", value)
}

fn grace_period<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    count("grace_period", value)
}

fn init_grace_tokens<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    count("init_grace_tokens", value)
}

/// A number of tokens. The error names the option, which serde's own does not.
fn count<'de, D: Deserializer<'de>>(name: &str, value: D) -> Result<Option<usize>, D::Error> {
    let Some(value) = Option::<Value>::deserialize(value)? else { return Ok(None) };
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    let bad = || D::Error::custom(format!("{name} is {value}: it must be a whole number from 0"));
    count.map(Some).ok_or_else(bad)
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

#[cfg(test)]
mod tests {
    use super::{Lengths, RequestedKvCache};

    #[track_caller]
    fn check_refused(json: &str, want: &str) {
        let error = serde_json::from_str::<RequestedKvCache>(json).expect_err("it is wrong");
        let error = error.to_string();
        assert!(error.starts_with(want), "{error}");
    }

    #[test]
    fn refusals_name_what_the_user_wrote() {
        check_refused("7", "invalid type: integer `7`, expected an object of options");
        check_refused(
            r#"{"chunk_size": -1}"#,
            "chunk_size is -1: it must be a whole number from 0",
        );
        check_refused(
            r#"{"grace_period": "x"}"#,
            "grace_period is \"x\": it must be a whole number from 0",
        );
        check_refused(
            r#"{"init_grace_tokens": 1.5}"#,
            "init_grace_tokens is 1.5: it must be a whole number from 0",
        );
        let lengths = "cache_length must be a whole number from 1, or a list of one for each layer";
        check_refused(r#"{"cache_length": -1}"#, lengths);
        check_refused(r#"{"cache_length": "long"}"#, lengths);
        check_refused(
            r#"{"cache_kwargs": {"grace_period": [1]}}"#,
            "an argument in cache_kwargs must be true or false, a number or a text",
        );
        check_refused(r#"{"length": 7}"#, "unknown field `length`, expected one of `name`,");
    }

    #[test]
    fn what_is_not_said_is_left_open() {
        let json =
            r#"{"chunk_size": null, "grace_period": 3, "cache_length": 18446744073709551615}"#;
        let requested: RequestedKvCache = serde_json::from_str(json).expect("good options");
        let want = RequestedKvCache {
            grace_period: Some(3),
            cache_length: Some(Lengths::One(usize::MAX)),
            ..RequestedKvCache::default()
        };
        assert_eq!(requested, want);
    }
}
