//! The `kv_cache` of a request: it acts on every route, and is refused with the reason.

use terrace_engine::text::{GenerationConfig, TextRequest};
use terrace_engine::{Lengths, RequestedKvCache};

use super::generating::Service;
use super::*;

const SLOTS: usize = 32;
const NEW_TOKENS: usize = 16;

fn prompt() -> String {
    "The quick brown fox jumps over the lazy dog and does not look back. ".repeat(2)
}

/// A greedy request of `prompt`, as each kind of route wants it.
fn body(prompt: Value, kv_cache: &Value) -> Value {
    let mut body = json!({"temperature": 0, "max_tokens": NEW_TOKENS, "ignore_eos": true});
    body.as_object_mut().expect("an object").extend(prompt.as_object().expect("one").clone());
    if !kv_cache.is_null() {
        body["kv_cache"] = kv_cache.clone();
    }
    body
}

/// What the engine itself gives for such a cache.
async fn from_engine(service: &Service, kv_cache: RequestedKvCache) -> String {
    let generation = GenerationConfig {
        temperature: Some(0.0),
        max_new_tokens: Some(NEW_TOKENS),
        ignore_eos: Some(true),
        ..GenerationConfig::default()
    };
    let request = TextRequest { kv_cache, ..TextRequest::new(prompt(), generation) };
    let mut stream = service.model().submit(request).expect("a good request");
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        text += &event.text;
    }
    text
}

#[tokio::test]
async fn the_kv_cache_of_a_request_acts_on_every_route() {
    let service = Service::start(ServerConfig::default());
    let asked = json!({
        "name": "h2o-torch-quantized4", "cache_length": SLOTS, "chunk_size": 8,
        "cache_kwargs": {"grace_period": 4}, "normalize_scores": false,
    });
    let same = RequestedKvCache {
        name: Some("h2o-torch-quantized4".into()),
        cache_length: Some(Lengths::One(SLOTS)),
        chunk_size: Some(8),
        grace_period: Some(4),
        normalize_scores: Some(false),
        ..RequestedKvCache::default()
    };
    let expected = from_engine(&service, same).await;
    let dense = from_engine(&service, RequestedKvCache::default()).await;
    assert_ne!(expected, dense, "the cache must act");

    let text = json!({"prompt": prompt()});
    let chat = json!({"messages": [{"role": "user", "content": prompt()}]});
    for (route, prompt, output) in [
        ("/v1/completions", &text, "/choices/0/text"),
        ("/completion", &text, "/text"),
        ("/v1/chat/completions", &chat, "/choices/0/message/content"),
        ("/chat", &chat, "/text"),
    ] {
        let output_of = async |kv_cache: &Value| {
            let response = service.post(route, body(prompt.clone(), kv_cache)).await;
            response.pointer(output).and_then(Value::as_str).expect("a text").to_owned()
        };
        let (kept_all, bounded) = (output_of(&Value::Null).await, output_of(&asked).await);
        assert_ne!(bounded, kept_all, "{route}");
        if prompt == &text {
            assert_eq!((bounded, kept_all), (expected.clone(), dense.clone()), "{route}");
        }
    }
}

#[tokio::test]
async fn a_kv_cache_that_cannot_be_is_refused_with_the_reason() {
    let service = Service::start(ServerConfig::default());
    let text = json!({"prompt": prompt()});
    for (kv_cache, param, message) in [
        (json!({"name": "h3o-default"}), "kv_cache", "kv_cache.name \"h3o-default\" is not known"),
        (
            json!({"name": "lastrec-default", "cache_kwargs": {"grace_period": 1}}),
            "kv_cache",
            "lastrec has no argument \"grace_period\": it takes init_grace_tokens",
        ),
        (
            json!({"name": "lastrec-default", "cache_length": 32, "chunk_size": 32}),
            "kv_cache",
            "make kv_cache.chunk_size or init_grace_tokens (4) smaller",
        ),
        (json!({"name": "h2o-default", "compat": "keys_values"}), "kv_cache", "no engine runs it"),
        (json!({"cache_length": 64}), "prompt", "a dense cache keeps all and has 64 slots"),
    ] {
        let error = service.refused("/v1/completions", body(text.clone(), &kv_cache)).await;
        assert_eq!(error["param"], param, "{kv_cache}");
        let found = error["message"].as_str().expect("a message");
        assert!(found.contains(message), "{kv_cache}: {found}");
    }
}
