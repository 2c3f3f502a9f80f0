//! Handles over HTTP: made, gone on from, kept apart by key, and sent as files.

use std::path::Path;

use terrace_engine::text::LanguageModel;
use terrace_engine::{DiskLevel, InferenceConfig, KvTiers, Precision};

use super::generating::{Service, tiny_files};
use super::*;

const ROUTE: &str = "/v1/kv_cache/handles";
const DOCUMENT: &str = "The quick brown fox jumps over the lazy dog and does not look back. ";
/// Of the disk level.
const DISK_BYTES: u64 = 64 << 20;

fn in_memory() -> KvTiers {
    KvTiers { host_bytes: Some(64 << 20), ..KvTiers::default() }
}

fn on_disk(folder: &Path, bytes: u64) -> KvTiers {
    KvTiers { disk: Some(DiskLevel { folder: folder.to_owned(), bytes }), ..in_memory() }
}

fn service(kv_tiers: KvTiers, keys: &[&str]) -> Service {
    let config = InferenceConfig {
        dtype: Precision::Fp32,
        threads: Some(2),
        kv_tiers,
        ..InferenceConfig::default()
    };
    let mut model = tiny_files();
    model.name = "tiny".to_owned();
    let model = LanguageModel::start(model, &config, || {}).expect("an engine");
    let api_keys = keys.iter().map(ToString::to_string).collect();
    let config = ServerConfig { api_keys, ..ServerConfig::default() };
    Service::start_models(config, vec![Arc::new(model)])
}

/// A service without a disk or keys.
fn plain() -> Service {
    service(in_memory(), &[])
}

/// Status and body of a request, which has a body unless it is null.
async fn ask(service: &Service, method: &str, path: &str, key: &str, body: Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", format!("Bearer {key}"));
    let request = request.header("content-type", "application/json");
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let response = service.send(request.body(body).expect("a request")).await;
    let status = response.status().as_u16();
    let text = text_of(response).await;
    let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (status, body)
}

async fn post(service: &Service, path: &str, body: Value) -> (u16, Value) {
    ask(service, "POST", path, "", body).await
}

#[track_caller]
fn check_refused(found: &(u16, Value), status: u16, code: &str, parts: &[&str]) {
    let (found_status, body) = found;
    assert_eq!((*found_status, &body["error"]["code"]), (status, &json!(code)), "{body}");
    let message = body["error"]["message"].as_str().expect("a message");
    for part in parts {
        assert!(message.contains(part), "{part:?} not in {message:?}");
    }
}

async fn made(service: &Service, body: Value) -> Value {
    let (status, handle) = post(service, ROUTE, body).await;
    assert_eq!(status, 201, "{handle}");
    handle
}

fn greedy(rest: Value) -> Value {
    let mut body = json!({
        "temperature": 0, "max_tokens": 12, "ignore_eos": true, "return_token_ids": true,
    });
    body.as_object_mut().expect("an object").extend(rest.as_object().expect("one").clone());
    body
}

async fn tokens_of(service: &Service, text: &str, add_special: bool) -> Vec<Value> {
    let body = json!({"prompt": text, "add_special_tokens": add_special});
    let tokens = service.post("/tokenize", body).await["tokens"].take();
    serde_json::from_value(tokens).expect("a list")
}

#[tokio::test]
async fn a_prompt_goes_on_from_a_handle() {
    let service = plain();
    let handle = made(&service, json!({"prompt": DOCUMENT, "name": "document"})).await;
    let mut ids = tokens_of(&service, DOCUMENT, true).await;
    assert_eq!(handle["object"], "kv_cache.handle");
    assert_eq!((&handle["name"], &handle["model"]), (&json!("document"), &json!("tiny")));
    assert_eq!((&handle["tokens"], &handle["durable"]), (&json!(ids.len()), &json!(false)));
    assert!(handle["expires_at"].is_null() && handle["bytes"].as_u64() > Some(0), "{handle}");

    let past = ids.len();
    ids.extend(tokens_of(&service, "It is asleep.", false).await);
    let cold = greedy(json!({"prompt": ids, "cache_prompt": false}));
    let cold = service.post("/v1/completions", cold).await;
    for reference in [&handle["name"], &handle["id"]] {
        let warm = greedy(json!({
            "prompt": "It is asleep.", "kv_cache": {"handle": reference},
        }));
        let whole = service.post("/v1/completions", warm.clone()).await;
        let output = |response: &Value| response["choices"][0]["token_ids"].clone();
        assert_eq!(output(&whole), output(&cold));
        assert_eq!(whole["choices"][0]["prompt_token_ids"], json!(ids));
        let usage = &whole["usage"];
        assert_eq!(usage["prompt_tokens"], ids.len());
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert!(cached >= Some(past as u64 - 1), "{usage}");
        let mark = json!({"handle": handle["id"], "crosses_arithmetic": false});
        assert_eq!(whole["kv_cache"], mark);

        let mut streamed = warm;
        streamed["stream"] = json!(true);
        let chunks = service.stream("/v1/completions", streamed).await;
        assert_eq!(chunks.last().expect("a chunk")["kv_cache"], mark);
        assert!(chunks[0]["kv_cache"].is_null());
    }
    assert!(cold["kv_cache"].is_null());
}

#[tokio::test]
async fn a_conversation_goes_on_from_the_handle_that_it_begins_with() {
    let service = plain();
    let said = |role: &str, content: &str| json!({"role": role, "content": content});
    let first = said("system", DOCUMENT);
    let handle = made(&service, json!({"messages": [first], "name": "talk"})).await;
    let chat = |first: Value| {
        let messages = json!([first, said("user", "Who sleeps?")]);
        greedy(json!({"messages": messages, "kv_cache": {"handle": "talk"}}))
    };
    let warm = service.post("/v1/chat/completions", chat(first.clone())).await;
    assert_eq!(warm["kv_cache"]["handle"], handle["id"]);
    let mut cold = chat(first.clone());
    cold["kv_cache"] = Value::Null;
    cold["cache_prompt"] = json!(false);
    let cold = service.post("/v1/chat/completions", cold).await;
    assert_eq!(warm["choices"][0]["token_ids"], cold["choices"][0]["token_ids"]);
    assert_eq!(warm["usage"]["prompt_tokens"], cold["usage"]["prompt_tokens"]);

    let other = post(&service, "/v1/chat/completions", chat(said("system", "The Quick"))).await;
    check_refused(
        &other,
        409,
        "prefix_mismatch",
        &["does not begin with handle \"talk\"", "at position", "the handle has token", "(\"q\")"],
    );
    let mut events = chat(first.clone());
    events["stream"] = json!(true);
    let events = service.stream("/v1/chat/completions", events).await;
    assert_eq!(events.last().expect("a chunk")["kv_cache"]["handle"], handle["id"]);

    let same = json!({"messages": [first], "add_generation_prompt": false});
    let mut same = greedy(same);
    same["kv_cache"] = json!({"handle": "talk"});
    let same = post(&service, "/v1/chat/completions", same).await;
    check_refused(&same, 409, "prefix_mismatch", &["the conversation no token", "more after them"]);
}

#[tokio::test]
async fn a_response_becomes_a_handle() {
    let service = plain();
    let completion = greedy(json!({"prompt": DOCUMENT}));
    let completion = service.post("/v1/completions", completion).await;
    let chat = json!({"messages": [{"role": "user", "content": DOCUMENT}]});
    let chat = service.post("/v1/chat/completions", greedy(chat)).await;
    let response = json!({"input": DOCUMENT, "max_output_tokens": 12, "temperature": 0});
    let response = service.post("/v1/responses", response).await;
    for (response, total) in [
        (&completion, &completion["usage"]["total_tokens"]),
        (&chat, &chat["usage"]["total_tokens"]),
        (&response, &response["usage"]["total_tokens"]),
    ] {
        let handle = made(&service, json!({"response_id": response["id"]})).await;
        assert_eq!(&handle["tokens"], total, "{response}");
        let more = greedy(json!({"prompt": " more", "kv_cache": {"handle": handle["id"]}}));
        let more = service.post("/v1/completions", more).await;
        assert_eq!(more["choices"][0]["finish_reason"], "length");
    }
    let several = service.post("/v1/completions", greedy(json!({"prompt": "a", "n": 2}))).await;
    for id in [several["id"].clone(), json!("cmpl-none")] {
        let refused = post(&service, ROUTE, json!({"response_id": id})).await;
        check_refused(&refused, 404, "response_not_found", &["with one output", "1,024"]);
    }
}

#[tokio::test]
async fn a_handle_is_changed_and_deleted() {
    let service = plain();
    let handle = made(&service, json!({"prompt": DOCUMENT, "name": "a/b", "ttl": 3600})).await;
    let expires = handle["expires_at"].as_u64().expect("a time");
    assert_eq!(expires - handle["created"].as_u64().expect("a time"), 3600);
    let path = format!("{ROUTE}/a%2Fb");
    assert_eq!(service.get(&path).await["id"], handle["id"]);
    let (status, changed) =
        post(&service, &path, json!({"name": "c", "ttl": 0, "pinned": true})).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!((&changed["name"], &changed["pinned"]), (&json!("c"), &json!(true)));
    assert!(changed["expires_at"].is_null() && changed["resident"] == true, "{changed}");

    made(&service, json!({"prompt": DOCUMENT, "name": "d"})).await;
    let taken = post(&service, &format!("{ROUTE}/d"), json!({"name": "c"})).await;
    check_refused(&taken, 409, "name_taken", &["\"c\""]);
    let nothing = post(&service, &format!("{ROUTE}/c"), json!({})).await;
    assert_eq!(nothing.0, 400);
    let names = |list: Value| -> Vec<String> {
        let data = list["data"].as_array().expect("a list").iter();
        data.map(|handle| handle["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(service.get(ROUTE).await), ["c", "d"]);
    let (status, deleted) = ask(&service, "DELETE", &format!("{ROUTE}/c"), "", Value::Null).await;
    let want = json!({"id": handle["id"], "object": "kv_cache.handle", "deleted": true});
    assert_eq!((status, deleted), (200, want));
    assert_eq!(names(service.get(ROUTE).await), ["d"]);
    let gone = ask(&service, "GET", &format!("{ROUTE}/c"), "", Value::Null).await;
    check_refused(&gone, 404, "handle_not_found", &["\"c\""]);
    let gone = post(
        &service,
        "/v1/completions",
        greedy(json!({"prompt": "a", "kv_cache": {"handle": "c"}})),
    )
    .await;
    check_refused(&gone, 404, "handle_not_found", &["\"c\""]);
}

#[tokio::test]
async fn keys_see_their_own_handles() {
    let service = service(in_memory(), &["anne", "bert"]);
    let make = async |key: &str, prompt: &str| {
        let body = json!({"prompt": prompt, "name": "document"});
        let (status, handle) = ask(&service, "POST", ROUTE, key, body).await;
        assert_eq!(status, 201, "{handle}");
        handle
    };
    let anne = make("anne", DOCUMENT).await;
    let path = format!("{ROUTE}/{}", anne["id"].as_str().expect("an id"));
    let (_, list) = ask(&service, "GET", ROUTE, "bert", Value::Null).await;
    assert_eq!(list, json!({"object": "list", "data": []}));
    for (method, path, body) in [
        ("GET", path.as_str(), Value::Null),
        ("DELETE", path.as_str(), Value::Null),
        ("POST", path.as_str(), json!({"pinned": true})),
        ("GET", &format!("{path}/export"), Value::Null),
        (
            "POST",
            "/v1/completions",
            greedy(json!({"prompt": "a", "kv_cache": {"handle": "document"}})),
        ),
        (
            "POST",
            "/v1/completions",
            greedy(json!({"prompt": "a", "kv_cache": {"handle": anne["id"]}})),
        ),
    ] {
        let refused = ask(&service, method, path, "bert", body).await;
        check_refused(&refused, 404, "handle_not_found", &[]);
    }
    let bert = make("bert", "Another document of the same name.").await;
    assert_ne!(anne["id"], bert["id"]);
    let (_, found) = ask(&service, "GET", &format!("{ROUTE}/document"), "anne", Value::Null).await;
    assert_eq!(found["id"], anne["id"]);

    let (_, response) =
        ask(&service, "POST", "/v1/completions", "anne", greedy(json!({"prompt": "a"}))).await;
    let body = json!({"response_id": response["id"]});
    let refused = ask(&service, "POST", ROUTE, "bert", body).await;
    check_refused(&refused, 404, "response_not_found", &[]);
}

#[tokio::test]
async fn options_that_a_handle_settles_are_refused_beside_it() {
    let service = plain();
    made(&service, json!({"prompt": DOCUMENT, "name": "document"})).await;
    for (field, value) in [
        ("cache_salt", json!("s")),
        ("cache_prompt", json!(false)),
        ("truncate_prompt_tokens", json!(4)),
        ("prompt_logprobs", json!(1)),
        ("suffix", json!("end")),
    ] {
        let mut body = greedy(json!({"prompt": "a", "kv_cache": {"handle": "document"}}));
        body[field] = value;
        let error = service.refused("/v1/completions", body).await;
        assert_eq!(error["param"], field, "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("cannot be given with kv_cache.handle"), "{message}");
    }
}

async fn exported(service: &Service, handle: &str) -> Vec<u8> {
    let response = service.send(get_request(&format!("{ROUTE}/{handle}/export"))).await;
    assert_eq!(response.status(), 200);
    let named = response.headers()["content-disposition"].to_str().expect("ascii");
    assert_eq!(named, format!("attachment; filename=\"{handle}.kv\""));
    response.into_body().collect().await.expect("a whole body").to_bytes().to_vec()
}

async fn imported(service: &Service, query: &str, body: Vec<u8>) -> (u16, Value) {
    let request = Request::post(format!("{ROUTE}/import{query}"));
    let response = service.send(request.body(Body::from(body)).expect("a request")).await;
    let status = response.status().as_u16();
    (status, serde_json::from_str(&text_of(response).await).expect("JSON"))
}

#[tokio::test]
async fn a_handle_travels_as_a_file() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [first, second] =
        &folders.each_ref().map(|folder| service(on_disk(folder.path(), DISK_BYTES), &[]));
    let handle = made(first, json!({"prompt": DOCUMENT, "name": "document"})).await;
    assert_eq!(handle["durable"], true);
    let file = exported(first, "document").await;
    let (status, copy) = imported(second, "?name=copy", file.clone()).await;
    assert_eq!(status, 201, "{copy}");
    assert_eq!((&copy["name"], &copy["tokens"]), (&json!("copy"), &handle["tokens"]));
    assert_eq!((&copy["imported"], &copy["durable"]), (&json!(true), &json!(true)));
    let ask = |handle: &str| greedy(json!({"prompt": "More.", "kv_cache": {"handle": handle}}));
    let own = first.post("/v1/completions", ask("document")).await;
    let sent = second.post("/v1/completions", ask("copy")).await;
    assert_eq!(own["choices"][0]["token_ids"], sent["choices"][0]["token_ids"]);

    let mut damaged = file.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for bad in [b"no handle".to_vec(), Vec::new(), file[..file.len() - 1].to_vec(), damaged] {
        let (status, body) = imported(second, "?name=bad", bad).await;
        assert_eq!(
            (status, &body["error"]["type"]),
            (400, &json!("invalid_request_error")),
            "{body}"
        );
    }
    let (status, _) = imported(second, "?ttl=1", Vec::new()).await;
    assert_eq!(status, 400);
    let names = second.get(ROUTE).await;
    assert_eq!(names["data"].as_array().map(Vec::len), Some(1), "{names}");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_the_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let full = service(on_disk(folder.path(), 64 << 10), &[]);
    let refused = post(&full, ROUTE, json!({"prompt": DOCUMENT.repeat(3)})).await;
    check_refused(&refused, 507, "insufficient_storage", &["bytes"]);

    let few = service(KvTiers { pin_bytes: Some(0), ..in_memory() }, &[]);
    let refused = post(&few, ROUTE, json!({"prompt": DOCUMENT, "pin": true})).await;
    check_refused(&refused, 409, "pin_budget_spent", &["0 of the 0", "--kv-pin-budget"]);
    made(&few, json!({"prompt": DOCUMENT, "name": "document"})).await;
    let refused = post(&few, &format!("{ROUTE}/document"), json!({"pinned": true})).await;
    check_refused(&refused, 409, "pin_budget_spent", &["0 of the 0", "--kv-pin-budget"]);

    let plain = plain();
    made(&plain, json!({"prompt": DOCUMENT, "name": "document"})).await;
    let path = format!("{ROUTE}/document/export");
    let refused = ask(&plain, "GET", &path, "", Value::Null).await;
    check_refused(&refused, 409, "no_disk_tier", &["--kv-tier disk="]);
}
