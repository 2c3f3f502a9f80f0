//! Which requests are let in: those with one of the server's keys, if it has any.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::docs;
use crate::middleware::Caller;

/// Load balancers ask the first without a key. The last two say nothing about this server, and a
/// browser cannot send a key with the address of a page.
const OPEN_ROUTES: [&str; 8] = [
    "/ping",
    "/health",
    "/v2/health/live",
    "/v2/health/ready",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    docs::PAGE,
    docs::DOCUMENT,
];

pub async fn check_key(
    State(state): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let keys = &state.config.api_keys;
    let open = keys.is_empty() || is_open(request.uri().path());
    let caller = Caller(offered(request.headers()).find_map(|key| index_of(key, keys)));
    if open || caller.0.is_some() {
        request.extensions_mut().insert(caller);
        next.run(request).await
    } else {
        ApiError::bad_key().into_response()
    }
}

fn is_open(path: &str) -> bool {
    OPEN_ROUTES.contains(&path)
        || path.strip_prefix(docs::PAGE).is_some_and(|rest| rest.starts_with('/'))
}

/// The keys that a request comes with: as OpenAI's clients send theirs, and as Anthropic's do.
fn offered(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let api_key = headers.get("x-api-key").map(|key| key.as_bytes().trim_ascii());
    bearer(headers).into_iter().chain(api_key)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

/// Looks at every byte of every key, so that the time says nothing about where they differ.
fn index_of(key: &[u8], keys: &[String]) -> Option<usize> {
    keys.iter().enumerate().fold(None, |found, (index, candidate)| {
        is_same(key, candidate.as_bytes()).then_some(index).or(found)
    })
}

fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing_bits = a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a ^ b));
    (a.len() == b.len()) & (std::hint::black_box(differing_bits) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_whole() {
        let keys = ["alpha".to_owned(), "beta".to_owned()];
        assert_eq!(index_of(b"beta", &keys), Some(1));
        for wrong in [b"bet".as_slice(), b"betas", b"", b"Beta"] {
            assert_eq!(index_of(wrong, &keys), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_scheme_may_be_in_any_case() {
        let headers = |value: &str| {
            HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().expect("ascii"))])
        };
        assert_eq!(bearer(&headers("Bearer k")), Some(b"k".as_slice()));
        assert_eq!(bearer(&headers("bearer k")), Some(b"k".as_slice()));
        assert_eq!(bearer(&headers("Basic k")), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_key_comes_in_either_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(offered(&headers).count(), 0);
        headers.insert("x-api-key", "a".parse().expect("ascii"));
        assert_eq!(offered(&headers).collect::<Vec<_>>(), [b"a"]);
        headers.insert(header::AUTHORIZATION, "Bearer b".parse().expect("ascii"));
        assert_eq!(offered(&headers).collect::<Vec<_>>(), [b"b", b"a"]);
    }
}
