//! What a handle is made of, from the request's fields.

use std::time::Duration;

use terrace_engine::text::Prompt;
use terrace_engine::{HandleLabels, Priority, RequestedKvCache};
use terrace_model::RenderOptions;

use crate::api_error::{ApiError, ApiResult};
use crate::chat::{Conversation, take_render_options};
use crate::fields::Fields;
use crate::language::{KvCacheFields, take_kv_cache, take_model};
use crate::openai::prompts::take_prompts;
use crate::tools::ToolOffer;

#[derive(Debug)]
pub struct HandleRequest {
    /// `None` means the only model there is.
    pub model: Option<String>,
    pub source: Source,
    /// Without the owner.
    pub labels: HandleLabels,
    pub kv_cache: RequestedKvCache,
    pub cache_salt: String,
    pub priority: Priority,
}

#[derive(Debug)]
pub enum Source {
    Prompt(Prompt),
    Conversation(Conversation, RenderOptions),
    /// The id of a response.
    Response(String),
}

impl HandleRequest {
    pub fn take(mut fields: Fields) -> ApiResult<Self> {
        let source = Source::take(&mut fields)?;
        let is_response = matches!(source, Source::Response(_));
        if is_response {
            refuse_beside_response(&fields)?;
        }
        let KvCacheFields { requested: kv_cache, handle } = take_kv_cache(&mut fields)?;
        if handle.is_some() {
            let message = "kv_cache.handle: a handle is not made of a handle; go on from it in a \
                           request, and give the id of the response as response_id";
            return Err(ApiError::invalid("kv_cache.handle", message));
        }
        let request = Self {
            source,
            kv_cache,
            model: take_model(&mut fields)?,
            labels: HandleLabels {
                name: fields.take("name")?,
                owner: None,
                ttl: take_ttl(&mut fields)?,
                pin: fields.take("pin")?.unwrap_or(false),
            },
            cache_salt: fields.take("cache_salt")?.unwrap_or_default(),
            priority: Priority(fields.take("priority")?.unwrap_or_default()),
        };
        fields.finish()?;
        Ok(request)
    }
}

impl Source {
    fn take(fields: &mut Fields) -> ApiResult<Self> {
        let names = ["prompt", "messages", "response_id"];
        let given: Vec<_> =
            names.into_iter().filter(|name| fields.kind_of(name).is_some()).collect();
        match given.as_slice() {
            ["prompt"] => {
                let mut prompts = take_prompts(fields, "prompt", 1)?;
                Ok(Self::Prompt(prompts.pop().expect("no list of prompts is empty")))
            }
            ["messages"] => Self::take_conversation(fields),
            [_] => Ok(Self::Response(fields.require("response_id")?)),
            [] => {
                let message = "give a prompt, messages or a response_id to make the handle of";
                Err(ApiError::invalid("prompt", message))
            }
            [first, second, ..] => {
                let message = format!(
                    "{first} and {second} are both given; a handle is made of one prompt, one list \
                     of messages or one response_id"
                );
                Err(ApiError::invalid(second, message))
            }
        }
    }

    /// Other than for a chat, the default is to end with the last message: further ones follow.
    fn take_conversation(fields: &mut Fields) -> ApiResult<Self> {
        let conversation = Conversation::take(fields)?;
        let offer = ToolOffer::take(fields)?;
        let says_how_to_end = fields.kind_of("add_generation_prompt").is_some();
        let mut render = take_render_options(fields)?;
        render.add_generation_prompt &= says_how_to_end;
        render.tools = offer.as_ref().map(ToolOffer::described);
        Ok(Self::Conversation(conversation, render))
    }
}

/// Seconds; 0 keeps the handle until it is deleted.
pub fn take_ttl(fields: &mut Fields) -> ApiResult<Option<Duration>> {
    let seconds = fields.take_in("ttl", 0..=MAX_TTL_SECONDS)?.unwrap_or(0);
    let seconds = u64::try_from(seconds).expect("the range is positive");
    Ok((seconds != 0).then(|| Duration::from_secs(seconds)))
}

/// A hundred years.
const MAX_TTL_SECONDS: i64 = 100 * 366 * 86_400;

fn refuse_beside_response(fields: &Fields) -> ApiResult<()> {
    for name in ["kv_cache", "cache_salt"] {
        if fields.kind_of(name).is_some() {
            let message = format!(
                "{name} cannot be given with response_id: the handle has that of the response"
            );
            return Err(ApiError::invalid(name, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: &str) -> ApiResult<HandleRequest> {
        HandleRequest::take(Fields::parse(body.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(body: &str, param: &str, want: &str) {
        take(body).unwrap_err().check_says(param, want);
    }

    #[test]
    fn a_handle_is_made_of_one_thing() {
        let prompt = take(r#"{"prompt": [1, 2], "name": "a", "ttl": 60, "pin": true}"#).unwrap();
        assert!(matches!(prompt.source, Source::Prompt(Prompt::Tokens(ids)) if ids == [1, 2]));
        let labels = HandleLabels {
            name: Some("a".to_owned()),
            owner: None,
            ttl: Some(Duration::from_secs(60)),
            pin: true,
        };
        assert_eq!(prompt.labels, labels);
        check_refused("{}", "prompt", "give a prompt, messages or a response_id");
        check_refused(
            r#"{"prompt": "a", "response_id": "b"}"#,
            "response_id",
            "prompt and response_id are both given",
        );
        check_refused(r#"{"prompt": ["a", "b"]}"#, "prompt", "prompt");
        check_refused(
            r#"{"response_id": "a", "cache_salt": "b"}"#,
            "cache_salt",
            "cache_salt cannot be given with response_id",
        );
        check_refused(
            r#"{"prompt": "a", "kv_cache": {"handle": "b"}}"#,
            "kv_cache.handle",
            "a handle is not made of a handle",
        );
        check_refused(r#"{"prompt": "a", "ttl": -1}"#, "ttl", "ttl is -1");
    }

    #[test]
    fn a_conversation_ends_with_its_last_message() {
        let ends = |rest: &str| {
            let body = format!(r#"{{"messages": [{{"role": "user", "content": "a"}}]{rest}}}"#);
            match take(&body).unwrap().source {
                Source::Conversation(_, render) => render.add_generation_prompt,
                other => panic!("{other:?}"),
            }
        };
        assert!(!ends(""));
        assert!(ends(r#", "add_generation_prompt": true"#));
        assert!(!ends(r#", "add_generation_prompt": false"#));
    }
}
