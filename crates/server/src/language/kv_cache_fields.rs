//! The `kv_cache` of a request: which tokens its cache keeps, in how many bits, and how long its
//! pages stay.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::Value;
use terrace_engine::{KwArg, Lengths, RequestedKvCache};

use crate::api_error::{ApiError, ApiResult};
use crate::fields::{Fields, Kind};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvCacheFields {
    pub requested: RequestedKvCache,
    /// The name or id of what the request goes on from, which has a cache already.
    pub handle: Option<String>,
    /// Of the pages that the request leaves behind.
    pub priority: Option<u8>,
    pub ttl_seconds: Option<u64>,
}

const PRIORITIES: RangeInclusive<i64> = 0..=100;
/// Up to a year.
const TTL_SECONDS: RangeInclusive<i64> = 1..=31_536_000;

pub fn take_kv_cache(fields: &mut Fields) -> ApiResult<KvCacheFields> {
    let Some(mut fields) = fields.take_object("kv_cache")? else {
        return Ok(KvCacheFields::default());
    };
    let handle = fields.take::<String>("handle")?;
    let priority = fields.take_in("priority", PRIORITIES)?;
    let ttl_seconds = fields.take_in("ttl", TTL_SECONDS)?;
    let requested = RequestedKvCache {
        name: fields.take("name")?,
        cache_length: take_length(&mut fields)?,
        chunk_size: fields.take("chunk_size")?,
        randomize_chunk_sizes: fields.take("randomize_chunk_sizes")?,
        cache_kwargs: take_arguments(&mut fields)?,
        grace_period: fields.take("grace_period")?,
        init_grace_tokens: fields.take("init_grace_tokens")?,
        normalize_scores: fields.take("normalize_scores")?,
        compat: fields.take("compat")?,
        replay_log: fields.take("replay_log")?,
    };
    fields.finish()?;
    if handle.is_some() && requested != RequestedKvCache::default() {
        return Err(ApiError::invalid(
            "kv_cache.handle",
            "kv_cache.handle: a handle has the cache that it was made with; leave out the other \
             fields of kv_cache",
        ));
    }
    Ok(KvCacheFields {
        requested,
        handle,
        priority: priority.and_then(|priority| u8::try_from(priority).ok()),
        ttl_seconds: ttl_seconds.and_then(|seconds| u64::try_from(seconds).ok()),
    })
}

/// Lengths by layer make a kind of cache of their own, for which an engine keeps books; only a
/// server may ask for one.
fn take_length(fields: &mut Fields) -> ApiResult<Option<Lengths>> {
    if fields.kind_of("cache_length") == Some(Kind::Array) {
        return Err(ApiError::invalid(
            "kv_cache.cache_length",
            "kv_cache.cache_length is a list: a request gives one number for all layers; lengths \
             by layer are the server's option",
        ));
    }
    Ok(fields.take("cache_length")?.map(Lengths::One))
}

fn take_arguments(fields: &mut Fields) -> ApiResult<BTreeMap<String, KwArg>> {
    let given = fields.take::<serde_json::Map<_, _>>("cache_kwargs")?.unwrap_or_default();
    let argument = |(name, value): (String, Value)| {
        let argument = match value {
            Value::Bool(flag) => KwArg::Flag(flag),
            Value::String(text) => KwArg::Text(text),
            Value::Number(number) => KwArg::Number(number.as_f64().unwrap_or(f64::NAN)),
            _ => {
                let path = format!("kv_cache.cache_kwargs.{name}");
                let message = format!("{path} must be a number, true, false or a string");
                return Err(ApiError::invalid(&path, message));
            }
        };
        Ok((name, argument))
    };
    given.into_iter().map(argument).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(json: &str) -> ApiResult<KvCacheFields> {
        take_kv_cache(&mut Fields::parse(json.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(json: &str, param: &str, want: &str) {
        take(json).unwrap_err().check_is(param, want);
    }

    #[test]
    fn a_cache_is_described_by_name() {
        let json = r#"{"kv_cache": {"name": "h2o-default", "cache_length": 64,
            "cache_kwargs": {"grace_period": 2, "normalize_scores": true}}}"#;
        let options = take(json).unwrap().requested;
        assert_eq!(options.name.as_deref(), Some("h2o-default"));
        assert_eq!(options.cache_length, Some(Lengths::One(64)));
        assert_eq!(options.cache_kwargs["grace_period"], KwArg::Number(2.0));
        assert_eq!(take("{}").unwrap(), KvCacheFields::default());
    }

    #[test]
    fn a_handle_brings_its_own_cache() {
        let taken = take(r#"{"kv_cache": {"handle": "contract"}}"#).unwrap();
        assert_eq!(taken.handle.as_deref(), Some("contract"));
        check_refused(
            r#"{"kv_cache": {"handle": "contract", "cache_length": 64}}"#,
            "kv_cache.handle",
            "kv_cache.handle: a handle has the cache that it was made with; leave out the other \
             fields of kv_cache",
        );
    }

    #[test]
    fn complaints_name_the_field_that_was_sent() {
        check_refused(r#"{"kv_cache": []}"#, "kv_cache", "kv_cache must be an object, not a list");
        check_refused(
            r#"{"kv_cache": {"cache_length": "long"}}"#,
            "kv_cache.cache_length",
            "kv_cache.cache_length must be a whole number, not a string (\"long\")",
        );
        check_refused(
            r#"{"kv_cache": {"length": 3}}"#,
            "kv_cache.length",
            "unknown field \"kv_cache.length\"",
        );
        check_refused(
            r#"{"kv_cache": {"cache_kwargs": {"a": []}}}"#,
            "kv_cache.cache_kwargs.a",
            "kv_cache.cache_kwargs.a must be a number, true, false or a string",
        );
    }
}
