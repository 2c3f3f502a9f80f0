//! Requests that cannot be read are refused like all others: with a JSON error.

use serde_json::{Value, json};

use super::*;
use crate::app_state::AppState;
use crate::router::router;
use crate::server_config::ServerConfig;
use crate::services::Services;
use crate::shutdown::cancel_signal;

/// A service without a model.
async fn service(limits: Limits) -> SocketAddr {
    let (_canceller, cancel) = cancel_signal();
    let app = router(Arc::new(AppState::new(ServerConfig::default(), Services::default(), cancel)));
    serve_app(app, limits).await
}

/// All that comes back; the client's side stays open.
async fn response_to(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request).await.expect("it is read");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("the server closes");
    response
}

#[track_caller]
fn check_response(response: &str, status: u16, want: &str) {
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    for header in ["content-type: application/json", "x-request-id: req-"] {
        assert!(head.contains(header), "{header} not in {head}");
    }
    let mut error: Value = serde_json::from_str(body).expect("JSON");
    let message = error["error"]["message"].take();
    assert!(message.as_str().is_some_and(|message| message.contains(want)), "{message}");
    let kind = "invalid_request_error";
    assert_eq!(
        error,
        json!({"error": {"message": null, "type": kind, "param": null, "code": null}})
    );
}

async fn check(request: impl AsRef<[u8]>, status: u16, want: &str) {
    let address = service(limits(LONG, LONG)).await;
    check_response(&response_to(address, request.as_ref()).await, status, want);
    ping_service(address).await;
}

async fn ping_service(address: SocketAddr) {
    let request = b"GET /ping HTTP/1.1\r\nconnection: close\r\n\r\n";
    assert!(response_to(address, request).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_bad_request_line_is_refused_in_json() {
    check("\u{1}\u{2}\r\n\r\n", 400, "invalid HTTP method").await;
    check("GET /a\u{7f}b HTTP/1.1\r\n\r\n", 400, "invalid URI").await;
    check("GET http:// HTTP/1.1\r\n\r\n", 400, "invalid URI").await;
}

#[tokio::test]
async fn another_version_is_refused_in_json() {
    for line in ["GET / HTTP/3.0", "GET / HTTQ/1.1", "GET / ", "PRI * HTTP/2.0\r\n\r\nSN"] {
        check(format!("{line}\r\n\r\n"), 505, "speaks HTTP/1.1").await;
    }
}

#[tokio::test]
async fn a_long_address_is_refused_in_json() {
    let want = "longer than 8192 bytes";
    for bytes in [9_000, 60_000, 65_530, 70_000, 1_000_000] {
        let request = format!("GET /{} HTTP/1.1\r\nconnection: close\r\n\r\n", "a".repeat(bytes));
        check(request, 414, want).await;
    }
    check(format!("GET /{}", "a".repeat(70_000)), 414, want).await;
}

#[tokio::test]
async fn a_long_head_is_refused_in_json() {
    let request = |headers: &str| format!("GET /ping HTTP/1.1\r\n{headers}\r\n");
    let long = |bytes| request(&format!("x: {}\r\n", "a".repeat(bytes)));
    for bytes in [65_536, 500_000, 2_000_000] {
        check(long(bytes), 431, "longer than 65536 bytes").await;
    }
    check(request(&"x: a\r\n".repeat(101)), 431, "more than 100 headers").await;
    check(request(&"x: a\r\n".repeat(20_000)), 431, "").await;
}

#[tokio::test]
async fn bad_headers_are_refused_in_json() {
    for (headers, want) in [
        ("no colon", "invalid HTTP header"),
        ("a b: c", "invalid HTTP header"),
        ("x: a\u{1}b", "invalid HTTP header"),
        ("content-length: 1\r\ncontent-length: 2", "invalid content-length"),
        ("content-length: -1", "invalid content-length"),
        ("content-length: 1, 2", "invalid content-length"),
        ("content-length: 99999999999999999999", "invalid content-length"),
        ("transfer-encoding: gzip", "invalid transfer-encoding"),
    ] {
        check(format!("POST /chat HTTP/1.1\r\n{headers}\r\n\r\n"), 400, want).await;
    }
    let endless = "POST /chat HTTP/1.1\r\ncontent-length: 18446744073709551615\r\n\r\n";
    check(endless, 413, "Content-Length").await;
    let old = "POST /chat HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    check(old, 400, "unexpected transfer-encoding").await;
}

#[tokio::test]
async fn a_bad_chunked_body_is_refused_in_json() {
    let head = "POST /chat HTTP/1.1\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n";
    for body in ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n", "fffffffffffffffff\r\n{}"] {
        check(format!("{head}{body}"), 400, "body").await;
    }
}

#[tokio::test]
async fn a_bad_head_after_a_good_request_is_refused_in_json() {
    let address = service(limits(LONG, LONG)).await;
    let responses = response_to(address, b"GET /ping HTTP/1.1\r\n\r\nbad\r\n\r\n").await;
    let good = r#"{"status":"Healthy"}"#;
    let (first, second) = responses.split_once(good).expect("the first response");
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    check_response(second, 400, "invalid HTTP method");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_refused_in_json() {
    let address = service(limits(SHORT, LONG)).await;
    check_response(&response_to(address, b"GET /pi").await, 408, "did not come within 0.05 s");
    assert_eq!(response_to(address, b"").await, "", "an idle connection is closed without a word");
}

#[tokio::test]
async fn a_head_cut_off_is_refused_in_json() {
    let address = service(limits(LONG, LONG)).await;
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(b"GET /ping HTTP/1.1\r\nhost").await.expect("it is read");
    stream.shutdown().await.expect("it is open");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("the server closes");
    check_response(&response, 400, "before the head of the request was complete");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_while_it_is_sent() {
    let address = service(limits(LONG, LONG)).await;
    let bytes = 16 << 20;
    let head = format!(
        "POST /chat HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
    );
    let request = [head.as_bytes(), &vec![b' '; bytes]].concat();
    check_response(&response_to(address, &request).await, 413, "longer than 4194304 bytes");
}
