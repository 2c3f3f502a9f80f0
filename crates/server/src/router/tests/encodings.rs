//! Compressed bodies, both ways.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::{GzEncoder, ZlibEncoder};
use futures_util::{StreamExt, stream};

use super::generating::{Service, hello};
use super::*;

/// Names a model that is not there: who reads it answers 404.
const BODY: &[u8] = br#"{"model": "gpt", "prompt": "a"}"#;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

async fn post(encodings: &[&'static str], body: impl Into<Body>) -> Response {
    let mut request = json_request("/tokenize", body);
    for encoding in encodings {
        request.headers_mut().append("content-encoding", encoding.parse().expect("ascii"));
    }
    send(ServerConfig::default(), request).await
}

async fn check_refused(encodings: &[&'static str], body: Vec<u8>, status: u16, want: &str) {
    let response = post(encodings, body).await;
    assert_eq!(response.status(), status, "{encodings:?}");
    let error = error_of(response).await;
    assert!(error["message"].as_str().is_some_and(|message| message.contains(want)), "{error}");
    assert_eq!(error["type"], "invalid_request_error");
}

#[tokio::test]
async fn compressed_requests_are_read() {
    for (encoding, body) in [
        ("gzip", gzip(BODY)),
        ("x-gzip", gzip(BODY)),
        ("GZip", gzip(BODY)),
        ("deflate", deflate(BODY)),
        ("identity", BODY.to_vec()),
    ] {
        let response = post(&[encoding], body).await;
        assert_eq!(error_of(response).await["code"], "model_not_found", "{encoding}");
    }
}

#[tokio::test]
async fn other_encodings_are_refused_with_the_list() {
    let twice = gzip(&gzip(BODY));
    for encodings in
        [&["br"][..], &["zstd"], &["gzip, gzip"], &["gzip", "gzip"], &["gzip,identity"]]
    {
        check_refused(encodings, twice.clone(), 415, "send one of gzip, deflate, or none").await;
    }
    let response = post(&["br"], BODY).await;
    assert_eq!(response.headers()["accept-encoding"], "gzip, deflate");
}

#[tokio::test]
async fn damaged_bodies_are_refused() {
    let (whole, want) = (gzip(BODY), "could not be read to its end");
    check_refused(&["gzip"], Vec::new(), 400, "not valid JSON").await;
    for cut in [1, 9, 12, whole.len() - 9, whole.len() - 1] {
        check_refused(&["gzip"], whole[..cut].to_vec(), 400, want).await;
    }
    let mut wrong_sum = whole.clone();
    *wrong_sum.last_mut().expect("a sum") ^= 1;
    check_refused(&["gzip"], wrong_sum, 400, want).await;
    check_refused(&["gzip"], BODY.to_vec(), 400, want).await;
    check_refused(&["deflate"], BODY.to_vec(), 400, "").await;
    // Read as it is, and then it is no JSON.
    check_refused(&[], whole, 400, "the body is not UTF-8").await;
}

#[tokio::test]
async fn a_bomb_stops_at_the_limit() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..1024 {
        encoder.write_all(&[0; 1 << 20]).expect("memory");
    }
    let bomb = encoder.finish().expect("memory");
    let (chunks, taken) = (bomb.len() / 4096, Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&taken);
    let chunks_of_it = bomb.chunks(4096).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let body = stream::iter(chunks_of_it).map(move |chunk| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::io::Error>(chunk)
    });
    let response = post(&["gzip"], Body::from_stream(body)).await;
    assert_eq!(response.status(), 413);
    let error = error_of(response).await;
    check_error(
        &error,
        "the body is longer than 4194304 bytes, the server's limit",
        Value::Null,
        Value::Null,
    );
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken <= chunks / 16, "{taken} chunks of {chunks} were read for 4 MiB of 1 GiB");
}

fn accepting(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert("accept-encoding", "gzip, deflate".parse().expect("ascii"));
    request
}

#[tokio::test]
async fn long_responses_are_compressed_for_those_who_take_it() {
    let document = || get_request("/openapi.json");
    let plain = send(ServerConfig::default(), document()).await;
    assert!(!plain.headers().contains_key("content-encoding"));
    let compressed = send(ServerConfig::default(), accepting(document())).await;
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    assert_eq!(compressed.headers()["vary"], "accept-encoding");
    let bytes = compressed.into_body().collect().await.expect("a body in memory").to_bytes();
    let (plain, mut decoded) = (text_of(plain).await, String::new());
    assert!(bytes.len() < plain.len() / 2, "{} {}", bytes.len(), plain.len());
    GzDecoder::new(&bytes[..]).read_to_string(&mut decoded).expect("gzip");
    assert_eq!(decoded, plain);
}

#[tokio::test]
async fn short_responses_are_sent_as_they_are() {
    let response = send(ServerConfig::default(), accepting(get_request("/ping"))).await;
    assert!(!response.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn streams_are_never_compressed() {
    let service = Service::start(ServerConfig::default());
    let mut body = hello();
    body["stream"] = json!(true);
    body["max_tokens"] = json!(200);
    let request = accepting(json_request("/v1/chat/completions", body.to_string()));
    let response = service.send(request).await;
    assert!(!response.headers().contains_key("content-encoding"));
    let text = text_of(response).await;
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
}
