//! A cache in a user's words: the options below `kv_cache`, on a command line or in a file.

use std::str::FromStr;

use super::error::PolicyError;
use super::policy_args::{ArgValue, PolicyArgs};

#[derive(Clone, Debug, PartialEq)]
pub struct KvCacheOptions {
    /// `{policy}-{buffer}`, or `{policy}-{buffer of keys}+{buffer of values}`.
    pub name: String,
    /// One length, or one for each layer.
    pub cache_length: Vec<usize>,
    pub chunk_size: usize,
    pub randomize_chunk_sizes: bool,
    pub cache_kwargs: PolicyArgs,
    /// Whose numbers to reproduce, defects and all.
    pub compat: Option<String>,
}

const KEYS: [&str; 5] = ["name", "cache_length", "chunk_size", "randomize_chunk_sizes", "compat"];
const KWARGS: &str = "cache_kwargs.";
/// Arguments of policies that may stand beside the options too.
const SHORT: [&str; 4] =
    ["grace_period", "init_grace_tokens", "normalize_scores", "range_is_prefix"];

impl KvCacheOptions {
    /// Everything is kept, as it is.
    pub fn dense(cache_length: usize) -> Self {
        KvCacheOptions {
            name: "dense-default".into(),
            cache_length: vec![cache_length],
            chunk_size: 1024,
            randomize_chunk_sizes: false,
            cache_kwargs: PolicyArgs::default(),
            compat: None,
        }
    }

    /// Sets the option `kv_cache.{key}` to what a user wrote.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), PolicyError> {
        match key {
            "name" => self.name = value.to_owned(),
            "cache_length" => {
                let lengths = value.split(',').map(|length| parsed(key, length.trim(), LENGTHS));
                self.cache_length = lengths.collect::<Result<_, _>>()?;
            }
            "chunk_size" => self.chunk_size = parsed(key, value, "a whole number")?,
            "randomize_chunk_sizes" => {
                self.randomize_chunk_sizes = parsed(key, value, "true or false")?;
            }
            "compat" => self.compat = Some(value.to_owned()),
            _ => {
                let short = SHORT.contains(&key).then_some(key);
                let argument = key.strip_prefix(KWARGS).or(short).ok_or_else(|| unknown(key))?;
                self.cache_kwargs.set(argument, ArgValue::parse(value));
            }
        }
        Ok(())
    }
}

const LENGTHS: &str = "a whole number, or one for each layer with commas between";

fn parsed<T: FromStr>(key: &str, value: &str, wanted: &str) -> Result<T, PolicyError> {
    value.parse().map_err(|_| PolicyError::BadArgument {
        argument: format!("kv_cache.{key}"),
        value: format!("{value:?}"),
        wanted: wanted.to_owned(),
    })
}

fn unknown(key: &str) -> PolicyError {
    let kwargs = format!("{KWARGS}*");
    let valid = KEYS.into_iter().chain([kwargs.as_str()]).chain(SHORT);
    let valid = valid.collect::<Vec<_>>().join(", ");
    PolicyError::UnknownKey { key: key.to_owned(), valid }
}
