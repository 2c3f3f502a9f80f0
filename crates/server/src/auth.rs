//! Who may come in: requests with one of the server's keys, if it has any.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api_error::ApiError;
use crate::docs;
use crate::state::AppState;

/// Load balancers ask the first two without a key. The others say nothing about this server, and a
/// browser cannot send a key with the address of a page.
const OPEN_ROUTES: [&str; 4] = ["/ping", "/health", docs::PAGE, docs::DOCUMENT];

pub async fn check_key(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let keys = &state.config.api_keys;
    let open = keys.is_empty() || is_open(request.uri().path());
    if open || bearer(request.headers()).is_some_and(|key| is_known(key, keys)) {
        next.run(request).await
    } else {
        ApiError::bad_key().into_response()
    }
}

fn is_open(path: &str) -> bool {
    OPEN_ROUTES.contains(&path)
        || path.strip_prefix(docs::PAGE).is_some_and(|rest| rest.starts_with('/'))
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

/// Looks at every byte of every key, so that the time says nothing about where they differ.
fn is_known(key: &[u8], keys: &[String]) -> bool {
    keys.iter().fold(false, |known, candidate| known | is_same(key, candidate.as_bytes()))
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
        assert!(is_known(b"beta", &keys));
        for wrong in [b"bet".as_slice(), b"betas", b"", b"Beta"] {
            assert!(!is_known(wrong, &keys), "{wrong:?}");
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
}
