//! What a request says about the pages it leaves behind: their priority, their time to live, and
//! the session whose conversation they are.

use terrace_engine::{RequestRetention, SessionKey};

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::language::kv_cache_fields::KvCacheFields;

/// Names of a session, ours first.
const SESSION_NAMES: [&str; 2] = ["session_id", "prompt_cache_key"];
const MAX_SESSION_ID: usize = 256;
const DAY_SECONDS: u64 = 86_400;

/// Where a session's time is left out it is the server's, which is not known here.
pub fn take_retention(
    fields: &mut Fields,
    kv_cache: &KvCacheFields,
) -> ApiResult<RequestRetention> {
    let owner = fields.caller.0;
    let session = take_session(fields)?.map(|id| SessionKey { owner, id });
    let kept_seconds = take_kept_seconds(fields)?;
    let default = match session.is_some() || kept_seconds.is_some() {
        true => RequestRetention::SESSION_PRIORITY,
        false => RequestRetention::default().priority,
    };
    Ok(RequestRetention {
        priority: kv_cache.priority.unwrap_or(default),
        ttl_ms: kv_cache.ttl_seconds.or(kept_seconds).map(|seconds| seconds * 1000),
        session,
    })
}

fn take_session(fields: &mut Fields) -> ApiResult<Option<String>> {
    let given = SESSION_NAMES.into_iter().find(|name| fields.kind_of(name).is_some());
    let Some(id) = fields.take_alias::<String>(&SESSION_NAMES)? else { return Ok(None) };
    let length = id.chars().count();
    if length == 0 || MAX_SESSION_ID < length {
        let name = given.unwrap_or(SESSION_NAMES[0]);
        let message = format!("{name} has {length} characters: it must have 1 to {MAX_SESSION_ID}");
        return Err(ApiError::invalid(name, message));
    }
    Ok(Some(id))
}

/// OpenAI's `prompt_cache_retention`; its clients write the first value in two ways.
fn take_kept_seconds(fields: &mut Fields) -> ApiResult<Option<u64>> {
    let name = "prompt_cache_retention";
    match fields.take::<String>(name)?.as_deref() {
        None | Some("in_memory" | "in-memory") => Ok(None),
        Some("24h") => Ok(Some(DAY_SECONDS)),
        Some(other) => {
            let message = format!(
                "{name} is {other:?}: it must be in_memory or 24h; for other times there \
                         is kv_cache.ttl"
            );
            Err(ApiError::invalid(name, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::kv_cache_fields::take_kv_cache;

    fn take(json: &str) -> ApiResult<RequestRetention> {
        let mut fields = Fields::parse(json.as_bytes())?;
        let kv_cache = take_kv_cache(&mut fields)?;
        let retention = take_retention(&mut fields, &kv_cache)?;
        fields.finish()?;
        Ok(retention)
    }

    #[track_caller]
    fn check(json: &str, session: Option<&str>, priority: u8, ttl_ms: Option<u64>) {
        let session = session.map(|id| SessionKey { owner: None, id: id.to_owned() });
        assert_eq!(take(json), Ok(RequestRetention { priority, ttl_ms, session }), "{json}");
    }

    #[test]
    fn a_request_says_how_long_its_pages_stay() {
        check("{}", None, 35, None);
        check(r#"{"kv_cache": {"priority": 0}}"#, None, 0, None);
        check(r#"{"kv_cache": {"priority": 100, "ttl": 60}}"#, None, 100, Some(60_000));
        check(r#"{"session_id": "a"}"#, Some("a"), 60, None);
        check(r#"{"prompt_cache_key": "a", "session_id": "a"}"#, Some("a"), 60, None);
        let hot = r#"{"prompt_cache_key": "a", "kv_cache": {"priority": 80, "ttl": 5}}"#;
        check(hot, Some("a"), 80, Some(5_000));
    }

    #[test]
    fn openais_retention_is_a_time_to_live() {
        for name in ["in_memory", "in-memory"] {
            let json =
                format!(r#"{{"prompt_cache_key": "a", "prompt_cache_retention": "{name}"}}"#);
            check(&json, Some("a"), 60, None);
        }
        let day = r#"{"prompt_cache_retention": "24h"}"#;
        check(day, None, 60, Some(86_400_000));
        let shorter = r#"{"prompt_cache_retention": "24h", "kv_cache": {"ttl": 60}}"#;
        check(shorter, None, 60, Some(60_000));
    }

    #[test]
    fn complaints_have_the_numbers() {
        let long = format!(r#"{{"prompt_cache_key": "{}"}}"#, "x".repeat(257));
        for (json, param, message) in [
            (
                r#"{"session_id": ""}"#,
                "session_id",
                "session_id has 0 characters: it must have 1 to 256",
            ),
            (
                long.as_str(),
                "prompt_cache_key",
                "prompt_cache_key has 257 characters: it must have 1 to 256",
            ),
            (
                r#"{"session_id": "a", "prompt_cache_key": "b"}"#,
                "prompt_cache_key",
                "prompt_cache_key and session_id mean the same but differ",
            ),
            (
                r#"{"prompt_cache_retention": "1h"}"#,
                "prompt_cache_retention",
                "prompt_cache_retention is \"1h\": it must be in_memory or 24h; for other times \
                 there is kv_cache.ttl",
            ),
            (
                r#"{"kv_cache": {"priority": 101}}"#,
                "kv_cache.priority",
                "kv_cache.priority is 101: it must be a whole number from 0 to 100",
            ),
            (
                r#"{"kv_cache": {"ttl": 0}}"#,
                "kv_cache.ttl",
                "kv_cache.ttl is 0: it must be a whole number from 1 to 31536000",
            ),
        ] {
            take(json).unwrap_err().check_is(param, message);
        }
    }
}
