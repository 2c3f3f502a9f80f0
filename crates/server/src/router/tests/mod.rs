//! What can be said about the routes without a model behind them; `generating` has one.

mod anthropic;
mod cors;
mod encodings;
mod extremes;
mod generating;
mod grpc;
mod inference;
mod kv_cache;
mod kv_handles;
mod ollama;
mod ranking;
mod responses;
mod sessions;
mod tables;
mod tool_calls;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::limits::Limits;
use crate::server_config::ServerConfig;
use crate::services::Services;
use crate::shutdown::cancel_signal;

pub async fn send(config: ServerConfig, request: Request<Body>) -> Response {
    let (_canceller, cancel) = cancel_signal();
    let state = AppState::new(config, Services::default(), cancel);
    router(Arc::new(state)).oneshot(request).await.expect("a router cannot fail")
}

pub async fn text_of(response: Response) -> String {
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

async fn error_of(response: Response) -> Value {
    let mut body: Value = serde_json::from_str(&text_of(response).await).expect("JSON");
    body["error"].take()
}

pub fn get_request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).expect("a request")
}

pub fn json_request(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(path).header("content-type", "application/json; charset=utf-8");
    request.body(body.into()).expect("a request")
}

#[track_caller]
fn check_error(error: &Value, message: &str, param: Value, code: Value) {
    let want = json!({
        "message": message, "type": "invalid_request_error", "param": param, "code": code
    });
    assert_eq!(*error, want);
}

#[tokio::test]
async fn ping_and_health_are_healthy() {
    for path in ["/ping", "/health"] {
        let response = send(ServerConfig::default(), get_request(path)).await;
        assert_eq!(response.status(), 200);
        assert_eq!(text_of(response).await, r#"{"status":"Healthy"}"#);
    }
}

#[tokio::test]
async fn no_engine_is_an_error() {
    let response = send(ServerConfig::default(), get_request("/engine_check")).await;
    assert_eq!(text_of(response).await, r#"{"status":"Error"}"#);
}

#[tokio::test]
async fn unknown_paths_and_methods_have_the_error_shape() {
    let response = send(ServerConfig::default(), get_request("/v3/models")).await;
    assert_eq!(response.status(), 404);
    let message = "nothing is at /v3/models; GET /docs lists the routes";
    check_error(&error_of(response).await, message, Value::Null, Value::Null);

    let response = send(ServerConfig::default(), get_request("/v1/completions")).await;
    assert_eq!(response.status(), 405);
    let message = "/v1/completions does not take GET; GET /docs lists the routes";
    check_error(&error_of(response).await, message, Value::Null, Value::Null);
}

#[tokio::test]
async fn an_unknown_model_is_not_found() {
    let body = r#"{"model": "gpt", "prompt": "a"}"#;
    for path in ["/v1/completions", "/completion", "/tokenize"] {
        let response = send(ServerConfig::default(), json_request(path, body)).await;
        assert_eq!(response.status(), 404, "{path}");
        let message = "no model \"gpt\" here; known: ";
        let code = json!("model_not_found");
        check_error(&error_of(response).await, message, json!("model"), code);
    }
    let response = send(ServerConfig::default(), get_request("/v1/models/org/gpt")).await;
    assert_eq!(response.status(), 404);
    assert_eq!(error_of(response).await["message"], "no model \"org/gpt\" here; known: ");
}

#[tokio::test]
async fn a_model_name_that_is_not_text_has_the_error_shape() {
    let response = send(ServerConfig::default(), get_request("/v1/models/a%ff")).await;
    assert_eq!(response.status(), 400);
    let message = "the model's name in the path is not UTF-8";
    check_error(&error_of(response).await, message, json!("model"), Value::Null);
}

#[tokio::test]
async fn bad_json_says_where() {
    let response =
        send(ServerConfig::default(), json_request("/chat", "{\n\"messages\": x}")).await;
    assert_eq!(response.status(), 400);
    let message = "the body is not valid JSON: expected value at line 2 column 13";
    check_error(&error_of(response).await, message, Value::Null, Value::Null);
}

#[tokio::test]
async fn a_body_of_another_kind_is_refused() {
    let request = Request::post("/chat").body(Body::from("{}")).expect("a request");
    assert_eq!(send(ServerConfig::default(), request).await.status(), 415);
}

#[tokio::test]
async fn a_long_body_is_refused() {
    let limits = Limits { body_bytes: 100, ..Limits::default() };
    let config = ServerConfig { limits, ..ServerConfig::default() };
    let body = json!({ "prompt": "a".repeat(200) }).to_string();
    let response = send(config, json_request("/v1/completions", body)).await;
    assert_eq!(response.status(), 413);
    let message = "the body is longer than 100 bytes, the server's limit";
    check_error(&error_of(response).await, message, Value::Null, Value::Null);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let idle_time = std::time::Duration::from_millis(20);
    let limits = Limits { idle_time, ..Limits::default() };
    let config = ServerConfig { limits, ..ServerConfig::default() };
    let never = futures_util::stream::pending::<Result<String, std::io::Error>>();
    let response = send(config, json_request("/chat", Body::from_stream(never))).await;
    assert_eq!(response.status(), 408);
    let message = "the body did not come within 0.02 s";
    check_error(&error_of(response).await, message, Value::Null, Value::Null);
}

#[tokio::test]
async fn keys_guard_all_but_the_health_routes() {
    let config = ServerConfig { api_keys: vec!["k1".to_owned()], ..ServerConfig::default() };
    let with_key = |path: &str, key: &str| {
        let request = Request::get(path).header("authorization", format!("Bearer {key}"));
        request.body(Body::empty()).expect("a request")
    };
    for path in ["/v1/models", "/metrics", "/", "/nowhere"] {
        let response = send(config.clone(), get_request(path)).await;
        assert_eq!(response.status(), 401, "{path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert_eq!(error_of(response).await["code"], "invalid_api_key");
        assert_eq!(send(config.clone(), with_key(path, "k2")).await.status(), 401, "{path}");
    }
    assert_eq!(send(config.clone(), with_key("/v1/models", "k1")).await.status(), 200);
    assert_eq!(send(config.clone(), get_request("/ping")).await.status(), 200);
    assert_eq!(send(config, get_request("/health")).await.status(), 200);
}

#[tokio::test]
async fn the_request_id_comes_back() {
    let request = Request::get("/ping").header("x-request-id", "mine");
    let request = request.body(Body::empty()).expect("a request");
    let response = send(ServerConfig::default(), request).await;
    assert_eq!(response.headers()["x-request-id"], "mine");

    let response = send(ServerConfig::default(), get_request("/ping")).await;
    assert!(response.headers()["x-request-id"].to_str().expect("ascii").starts_with("req-"));
}

#[tokio::test]
async fn metrics_count_requests_by_route_and_status() {
    let (_canceller, cancel) = cancel_signal();
    let app = router(Arc::new(AppState::new(ServerConfig::default(), Services::default(), cancel)));
    for path in ["/ping", "/ping", "/nowhere"] {
        let response = app.clone().oneshot(get_request(path)).await.expect("a router cannot fail");
        drop(response);
    }
    let response = app.oneshot(get_request("/metrics")).await.expect("a router cannot fail");
    let metrics = text_of(response).await;
    for line in [
        r#"terrace_requests_total{route="/ping",status="200"} 2"#,
        r#"terrace_requests_total{route="unknown",status="404"} 1"#,
        r#"terrace_request_duration_seconds_count{route="/ping"} 2"#,
        "terrace_generation_tokens_per_second 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} not in\n{metrics}");
    }
}
