//! Servers started with a cache of their own, asked over HTTP.

use serde_json::{Value, json};
use terrace_testkit::TinyModel;

use crate::server_process::ServerProcess;

const PROMPT: &str = "The quick brown fox jumps over the lazy dog and does not look back, for the \
                      dog is asleep and the fox has far to go before the night.";

fn serve(args: &[&str]) -> ServerProcess {
    // The server has opened its files when it listens.
    ServerProcess::serving(&TinyModel::new().path(), args)
}

#[track_caller]
fn complete(server: &ServerProcess, fields: Value) -> Value {
    let body = json!({
        "prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": true,
    });
    server.complete(body, &fields)
}

#[track_caller]
fn text(response: &Value) -> String {
    let text = response["choices"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {response}")).to_owned()
}

#[test]
fn a_server_started_with_a_kv_cache_serves_it_over_http() {
    let plain = serve(&[]);
    let dense = text(&complete(&plain, json!({})));
    for (name, arguments) in [
        ("h2o-torch-quantized8", json!({"grace_period": 4, "normalize_scores": false})),
        ("lastrec-fp8", json!({"init_grace_tokens": 2})),
        ("streamingllm-bnb-quantized4", json!({})),
    ] {
        let mut args = vec!["--kv-cache.name".to_owned(), name.to_owned()];
        args.extend(["--kv_cache.cache_length", "32", "--kv-cache.chunk-size=8"].map(String::from));
        for (argument, value) in arguments.as_object().expect("arguments") {
            args.push(format!("--kv_cache.cache_kwargs.{argument}"));
            args.push(value.to_string());
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let own = text(&complete(&serve(&args), json!({})));
        assert_ne!(own, dense, "{name}: the cache must act");
        let requested = json!({
            "name": name, "cache_length": 32, "chunk_size": 8, "cache_kwargs": arguments,
        });
        let asked = text(&complete(&plain, json!({"kv_cache": requested})));
        assert_eq!(asked, own, "{name}: a request's cache and the server's are the same");
    }
}

#[test]
fn a_dense_servers_cache_length_is_its_limit() {
    let server = serve(&["--kv-cache.cache-length", "64"]);
    let refused = complete(&server, json!({}));
    let message = refused["error"]["message"].as_str().expect("an error");
    assert!(message.contains("a dense cache keeps all and has 64 slots"), "{message}");
    assert_eq!(refused["error"]["code"], "context_length_exceeded");
    let short = complete(&server, json!({"prompt": "short"}));
    assert_eq!(short["usage"]["completion_tokens"], 24);
    text(&complete(&server, json!({"kv_cache": {"name": "lastrec-default"}})));
}
