//! Browsers and the pages of other origins.

use axum::http::Method;

use super::generating::{Service, hello};
use super::*;

const ORIGIN: &str = "https://chat.example.com";

fn allowing(origins: &[&str]) -> ServerConfig {
    let origins = origins.iter().map(|origin| origin.parse().expect("an origin"));
    ServerConfig { allowed_origins: origins.collect(), ..ServerConfig::default() }
}

fn preflight(origin: &str) -> Request<Body> {
    let request = Request::builder().method(Method::OPTIONS).uri("/v1/chat/completions");
    request
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type")
        .body(Body::empty())
        .expect("a request")
}

fn from(origin: &str, mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert("origin", origin.parse().expect("ascii"));
    request
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("ascii"))
}

#[tokio::test]
async fn without_allowed_origins_nothing_is_said_about_them() {
    let response = send(ServerConfig::default(), preflight(ORIGIN)).await;
    assert_eq!(response.status(), 405);
    assert_eq!(header(&response, "access-control-allow-origin"), "");
    assert_eq!(error_of(response).await["type"], "invalid_request_error");
    let response = send(ServerConfig::default(), from(ORIGIN, get_request("/ping"))).await;
    assert_eq!(header(&response, "access-control-allow-origin"), "");
}

#[tokio::test]
async fn a_preflight_needs_no_key() {
    let config = ServerConfig { api_keys: vec!["k".to_owned()], ..allowing(&[ORIGIN]) };
    let response = send(config, preflight(ORIGIN)).await;
    assert_eq!(response.status(), 200);
    for (name, want) in [
        ("access-control-allow-origin", ORIGIN),
        ("access-control-allow-methods", "POST"),
        ("access-control-allow-headers", "authorization,content-type"),
        ("access-control-max-age", "600"),
    ] {
        assert_eq!(header(&response, name), want, "{name}");
    }
}

#[tokio::test]
async fn only_allowed_origins_are_let_in() {
    let origins = [ORIGIN, "http://localhost:3000"];
    for origin in origins {
        let response = send(allowing(&origins), from(origin, get_request("/ping"))).await;
        assert_eq!(header(&response, "access-control-allow-origin"), origin);
    }
    let other = "https://other.example.com";
    let response = send(allowing(&origins), from(other, get_request("/ping"))).await;
    assert_eq!(header(&response, "access-control-allow-origin"), "");
    let response = send(allowing(&["*"]), from(other, get_request("/ping"))).await;
    assert_eq!(header(&response, "access-control-allow-origin"), "*");
}

#[tokio::test]
async fn errors_and_streams_are_marked_too() {
    let config = ServerConfig { api_keys: vec!["k".to_owned()], ..allowing(&[ORIGIN]) };
    let refused = send(config, from(ORIGIN, get_request("/v1/models"))).await;
    assert_eq!(refused.status(), 401);
    let unknown = send(allowing(&[ORIGIN]), from(ORIGIN, get_request("/nowhere"))).await;
    assert_eq!(unknown.status(), 404);
    let mut body = hello();
    body["stream"] = json!(true);
    let request = from(ORIGIN, json_request("/v1/chat/completions", body.to_string()));
    let stream = Service::start(allowing(&[ORIGIN])).send(request).await;
    assert_eq!(header(&stream, "content-type"), "text/event-stream");
    for response in [&refused, &unknown, &stream] {
        assert_eq!(header(response, "access-control-allow-origin"), ORIGIN);
        let exposed = header(response, "access-control-expose-headers");
        assert!(exposed.contains("x-request-id"), "{exposed}");
        assert_ne!(header(response, "x-request-id"), "");
    }
}
