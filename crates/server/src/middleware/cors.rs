//! Which web pages of other origins may use the service from a browser: none, unless allowed.

use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Uri, header};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

/// What scripts may read of a response beside its body.
const EXPOSED: [HeaderName; 3] = [
    HeaderName::from_static("x-request-id"),
    header::RETRY_AFTER,
    HeaderName::from_static("x-should-retry"),
];

/// For how long a browser need not ask again.
const PREFLIGHT_TIME: Duration = Duration::from_secs(600);

/// Pages from here may use the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigin {
    Any,
    Only(HeaderValue),
}

impl FromStr for AllowedOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let origin = text.to_ascii_lowercase();
        match origin.as_str() {
            "*" => return Ok(Self::Any),
            // Pages from files, and those in a sandbox.
            "null" => return Ok(Self::Only(HeaderValue::from_static("null"))),
            _ => {}
        }
        let expected = "give SCHEME://HOST[:PORT], as https://chat.example.com, or * for all";
        let uri: Uri = origin.parse().map_err(|_| expected.to_owned())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(expected.to_owned());
        };
        if origin != format!("{scheme}://{authority}") || authority.as_str().contains(['@', '*']) {
            return Err(format!("{expected}, and nothing behind it"));
        }
        Ok(Self::Only(HeaderValue::from_str(&origin).expect("an address is ASCII")))
    }
}

/// Answers preflights and marks responses; `None` where no origin is allowed.
pub fn layer(origins: &[AllowedOrigin]) -> Option<CorsLayer> {
    let only: Option<Vec<_>> = origins
        .iter()
        .map(|origin| match origin {
            AllowedOrigin::Any => None,
            AllowedOrigin::Only(origin) => Some(origin.clone()),
        })
        .collect();
    let allowed = match only {
        Some(only) if only.is_empty() => return None,
        Some(only) => AllowOrigin::list(only),
        None => AllowOrigin::any(),
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED)
        .max_age(PREFLIGHT_TIME);
    Some(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_send_them() {
        for (text, origin) in [
            ("https://chat.example.com", "https://chat.example.com"),
            ("HTTP://LocalHost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("null", "null"),
        ] {
            let want = AllowedOrigin::Only(HeaderValue::from_static(origin));
            assert_eq!(text.parse(), Ok(want));
        }
        assert_eq!("*".parse(), Ok(AllowedOrigin::Any));
    }

    #[test]
    fn what_no_browser_sends_is_refused() {
        for text in ["", "localhost", "localhost:3000", "https://a.b/", "https://a.b/c", "a b"] {
            let error = text.parse::<AllowedOrigin>().expect_err(text);
            assert!(error.starts_with("give SCHEME://HOST[:PORT]"), "{error}");
        }
        assert!("https://me@a.b".parse::<AllowedOrigin>().is_err());
        assert!("https://*.a.b".parse::<AllowedOrigin>().is_err());
    }
}
