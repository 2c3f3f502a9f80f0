//! Replies of `/tokenize` and `/detokenize`, which may be much longer than their requests.
//!
//! They are written while they are sent, a few tokens at a time: what is held for them is the list
//! of ids, and it is given back when the client has the last of it or has left.

use std::convert::Infallible;
use std::fmt::Write;
use std::iter;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::json;
use terrace_engine::TokenId;
use utoipa::ToSchema;

use crate::bounded_work::HeldMemory;

/// Tokens written at a time.
const TOKENS_AT_ONCE: usize = 4096;

/// What [`token_list`] writes.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct Tokenized {
    /// Their ids.
    #[schema(value_type = Vec<u32>)]
    tokens: Vec<TokenId>,
    /// How many there are.
    count: usize,
    /// Tokens that the model can look back on.
    max_model_len: usize,
}

/// What [`token_text`] writes: the same text under the two names clients look for.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct Detokenized {
    /// The text of the tokens.
    prompt: String,
    /// The same.
    text: String,
}

pub fn token_list(tokens: Vec<TokenId>, max_model_len: usize, held: HeldMemory) -> Response {
    let count = tokens.len();
    let tail = format!(r#"],"count":{count},"max_model_len":{max_model_len}}}"#);
    let mut written = 0;
    let ids = iter::from_fn(move || {
        let next = tokens[written..].chunks(TOKENS_AT_ONCE).next()?;
        let mut text = String::with_capacity(8 * next.len());
        for id in next {
            let comma = if written == 0 { "" } else { "," };
            write!(text, "{comma}{id}").expect("strings can be written to");
            written += 1;
        }
        Some(text)
    });
    let head = r#"{"tokens":["#.to_owned();
    reply(iter::once(head).chain(ids).chain(iter::once(tail)), held)
}

/// Takes the segments of the text twice, once for each name.
pub fn token_text<T>(segments: [T; 2], held: HeldMemory) -> Response
where
    T: Iterator<Item = String> + Send + 'static,
{
    let escaped = |segment: String| {
        let json = json!(segment).to_string();
        json[1..json.len() - 1].to_owned()
    };
    let [first, second] = segments.map(|segments| segments.map(escaped));
    let head = iter::once(r#"{"prompt":""#.to_owned());
    let between = iter::once(r#"","text":""#.to_owned());
    let tail = iter::once(r#""}"#.to_owned());
    reply(head.chain(first).chain(between).chain(second).chain(tail), held)
}

fn reply(segments: impl Iterator<Item = String> + Send + 'static, held: HeldMemory) -> Response {
    let segments = segments.map(move |segment| {
        let _until_the_end = &held;
        Ok::<_, Infallible>(segment)
    });
    let body = Body::from_stream(stream::iter(segments));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::bounded_work::WorkMemory;

    async fn held() -> HeldMemory {
        WorkMemory::new().for_reply(1).await.expect("all is free")
    }

    async fn read<T: DeserializeOwned>(response: Response) -> T {
        let body = response.into_body().collect().await.expect("it never fails").to_bytes();
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}"))
    }

    #[tokio::test]
    async fn long_lists_are_whole() {
        for count in [0, 1, TOKENS_AT_ONCE, TOKENS_AT_ONCE + 1, 3 * TOKENS_AT_ONCE] {
            let tokens: Vec<TokenId> = (0..count as TokenId).collect();
            let want = Tokenized { tokens: tokens.clone(), count, max_model_len: 7 };
            assert_eq!(read::<Tokenized>(token_list(tokens, 7, held().await)).await, want);
        }
    }

    #[tokio::test]
    async fn texts_are_escaped() {
        let segments = || ["a\"", "\n\\", "", "\u{1}é\u{2028}"].map(str::to_owned).into_iter();
        let text: String = segments().collect();
        let want = Detokenized { prompt: text.clone(), text };
        let response = token_text([segments(), segments()], held().await);
        assert_eq!(read::<Detokenized>(response).await, want);
    }
}
