//! Ollama's routes with a tiny model behind them.

use std::collections::BTreeSet;

use super::generating::Service;
use super::*;

const CHAT: &str = "/api/chat";
const GENERATE: &str = "/api/generate";

/// A template that names its format of calls and shows nothing of the tools: the tiny model has
/// a short context.
const HERMES: &str = "{% if tools %}{# <tool_call> #}{% endif %}{{ messages[0].content }}";
/// Shows its options about thinking.
const THINKING: &str = "{{ messages[-1].content }} {{ enable_thinking }} {{ reasoning_effort }}\
                        {# <think> </think> #}";

fn service(template: &str) -> Service {
    let chat_template = Some(template.to_owned());
    Service::start(ServerConfig { chat_template, ..ServerConfig::default() })
}

fn plain() -> Service {
    Service::start(ServerConfig::default())
}

fn hello(rest: Value) -> Value {
    let mut body = json!({
        "model": "tiny", "messages": [{"role": "user", "content": "hello"}],
        "options": {"num_predict": 12, "temperature": 0},
    });
    for (name, value) in rest.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

async fn check_refused(service: &Service, path: &str, body: Value, want: &str) {
    let (status, error) = status_and_error(service, json_request(path, body.to_string())).await;
    assert_eq!(status, 400);
    assert!(error.starts_with(want), "{error}");
}

async fn status_and_error(service: &Service, request: Request<Body>) -> (u16, String) {
    let response = service.send(request).await;
    let status = response.status().as_u16();
    let body: Value = serde_json::from_str(&text_of(response).await).expect("JSON");
    (status, body["error"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned())
}

#[track_caller]
fn check_end(line: &Value, reason: &str) {
    assert_eq!((&line["done"], &line["done_reason"]), (&json!(true), &json!(reason)), "{line}");
    let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name} in {line}"));
    let parts = ["load_duration", "prompt_eval_duration", "eval_duration"].map(number);
    assert!(number("total_duration") >= parts.iter().sum::<u64>() - 3, "{line}");
    assert!(number("prompt_eval_count") > 0 && number("eval_count") > 0, "{line}");
}

#[tokio::test]
async fn whole_and_streamed_chats_agree() {
    let service = plain();
    let body_with = |stream| hello(json!({"stream": stream, "logprobs": true, "top_logprobs": 2}));
    let whole = service.post(CHAT, body_with(false)).await;
    assert_eq!((&whole["model"], &whole["message"]["role"]), (&json!("tiny"), &json!("assistant")));
    check_end(&whole, "length");
    assert_eq!(whole["eval_count"], 12);
    assert_eq!(whole["logprobs"].as_array().expect("tokens").len(), 12);
    assert_eq!(whole["logprobs"][0]["top_logprobs"].as_array().expect("tokens").len(), 2);

    let lines = service.lines(CHAT, body_with(true)).await;
    let (last, deltas) = lines.split_last().expect("lines");
    check_end(last, "length");
    assert!(deltas.iter().all(|line| line["done"] == false && line.get("done_reason").is_none()));
    let text: String =
        deltas.iter().map(|line| line["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(json!(text), whole["message"]["content"]);
    let logprobs = deltas.iter().filter_map(|line| line["logprobs"].as_array()).flatten();
    assert_eq!(json!(logprobs.collect::<Vec<_>>()), whole["logprobs"]);
    assert_eq!(last["prompt_eval_count"], whole["prompt_eval_count"]);
    // Streams are what a request gets that does not say.
    assert_eq!(service.lines(CHAT, hello(json!({}))).await.last().expect("lines")["done"], true);
}

#[tokio::test]
async fn a_prompt_is_a_chat_unless_it_is_raw() {
    let service = service("{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}");
    let options = json!({"num_predict": 8, "temperature": 0});
    let generate = async |rest: Value| {
        let mut body = json!({"prompt": "hello", "stream": false, "options": options});
        for (name, value) in rest.as_object().expect("an object") {
            body[name] = value.clone();
        }
        service.post(GENERATE, body).await
    };
    let spoken = generate(json!({})).await;
    check_end(&spoken, "length");
    let chat = hello(json!({"stream": false, "options": options}));
    assert_eq!(spoken["response"], service.post(CHAT, chat).await["message"]["content"]);
    assert_eq!(spoken["prompt_eval_count"], "[user] hello".len());
    let raw = generate(json!({"raw": true})).await;
    assert_eq!(raw["prompt_eval_count"], "hello".len());
    let system = generate(json!({"system": "Be kind."})).await;
    assert_eq!(system["prompt_eval_count"], "[system] Be kind.[user] hello".len());
    let body = json!({"prompt": "hello", "options": options});
    let lines = service.lines(GENERATE, body).await;
    let text: String = lines.iter().map(|line| line["response"].as_str().unwrap()).collect();
    assert_eq!(json!(text), spoken["response"]);
    let suffix = json!({"prompt": "a", "suffix": "b"});
    let want = "suffix is not supported: the model \"tiny\"";
    check_refused(&service, GENERATE, suffix, want).await;
}

#[tokio::test]
async fn an_empty_request_looks_up_the_model() {
    let service = plain();
    let loaded = service.post(CHAT, json!({"model": "tiny", "messages": []})).await;
    assert_eq!(
        (&loaded["done_reason"], &loaded["message"]["content"]),
        (&json!("load"), &json!(""))
    );
    let loaded = service.post(GENERATE, json!({"model": "tiny"})).await;
    assert_eq!((&loaded["done_reason"], &loaded["response"]), (&json!("load"), &json!("")));
    let unload = json!({"model": "tiny", "keep_alive": 0});
    let want = "keep_alive is 0 and there is no prompt, which asks to unload the model; models \
                stay loaded while this server runs";
    check_refused(&service, GENERATE, unload, want).await;
}

#[tokio::test]
async fn a_structured_output_holds_and_is_named_format() {
    let service = plain();
    let schema = json!({"type": "object", "properties": {"x": {"enum": ["a", "b"]}},
        "required": ["x"], "additionalProperties": false});
    let options = json!({"num_predict": 100, "temperature": 1, "seed": 3});
    let whole = service
        .post(CHAT, hello(json!({"format": schema, "options": options, "stream": false})))
        .await;
    assert_eq!(whole["done_reason"], "stop");
    let content = whole["message"]["content"].as_str().expect("a text");
    let parsed: Value = serde_json::from_str(content).expect("JSON");
    assert!(parsed == json!({"x": "a"}) || parsed == json!({"x": "b"}), "{content}");
    let lines = service.lines(CHAT, hello(json!({"format": schema, "options": options}))).await;
    let text: String =
        lines.iter().map(|line| line["message"]["content"].as_str().expect("a text")).collect();
    assert_eq!(text, content);
    let bad = hello(json!({"format": {"type": "nothing"}}));
    check_refused(&service, CHAT, bad, "format cannot be followed").await;
}

#[tokio::test]
async fn calls_have_objects_as_arguments() {
    let service = service(HERMES);
    let parameters = json!({"type": "object", "properties": {"x": {"enum": ["a", "b"]}},
        "required": ["x"], "additionalProperties": false});
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": parameters}}]);
    // Under a grammar, what comes is either a call or what it allows.
    let body_with = |seed: usize, stream: bool| {
        let options = json!({"num_predict": 200, "temperature": 2, "top_k": 0, "top_p": 1,
            "seed": seed});
        hello(json!({"tools": tools, "format": {"enum": ["no"]}, "options": options,
            "stream": stream}))
    };
    let mut called = 0;
    for seed in 0..12 {
        let whole = service.post(CHAT, body_with(seed, false)).await;
        assert_eq!(whole["done_reason"], "stop");
        let arguments = |message: &Value| -> Vec<Value> {
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            calls.iter().map(|call| call["function"]["arguments"].clone()).collect()
        };
        let message = &whole["message"];
        let found = arguments(message);
        for x in &found {
            assert!(*x == json!({"x": "a"}) || *x == json!({"x": "b"}), "{message}");
        }
        assert!(!found.is_empty() || message["content"].as_str().unwrap().contains("no"));
        called += usize::from(!found.is_empty());
        let lines = service.lines(CHAT, body_with(seed, true)).await;
        let streamed: Vec<_> = lines.iter().flat_map(|line| arguments(&line["message"])).collect();
        assert_eq!(streamed, found);
    }
    assert!((1..12).contains(&called), "one of the two never came: {called} calls");
}

#[tokio::test]
async fn thinking_is_requested_and_shown_apart() {
    let service = service(THINKING);
    let tokens = async |think: Value| {
        let body = hello(json!({"think": think, "stream": false}));
        service.post(CHAT, body).await["prompt_eval_count"].clone()
    };
    // As the template writes its options; minijinja writes nothing for what is not there.
    assert_eq!(tokens(json!(false)).await, "hello False ".len());
    assert_eq!(tokens(json!(true)).await, "hello True ".len());
    assert_eq!(tokens(json!("low")).await, "hello True low".len());
    assert_eq!(tokens(Value::Null).await, "hello  ".len());
    let schema = json!({"const": "so"});
    let thinks = hello(json!({"think": true}));
    check_refused(&plain(), CHAT, thinks, "think is not supported by \"tiny\"").await;
    let response =
        service.post(GENERATE, json!({"prompt": "a", "format": schema, "stream": false}));
    assert_eq!(response.await["response"], "\"so\"");
}

#[tokio::test]
async fn models_have_names_with_and_without_a_tag() {
    let service = plain();
    for name in ["tiny", "tiny:latest"] {
        let whole = service.post(CHAT, hello(json!({"model": name, "stream": false}))).await;
        assert_eq!(whole["model"], name);
        let shown = service.post("/api/show", json!({"model": name})).await;
        assert_eq!(shown["model_info"]["terrace.context_length"], 512, "{shown}");
        assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
    }
    let list = service.get("/api/tags").await;
    let tag = &list["models"][0];
    assert_eq!((&tag["name"], &tag["model"]), (&json!("tiny:latest"), &json!("tiny:latest")));
    assert_eq!(tag["digest"].as_str().expect("a digest").len(), 64);
    assert!(tag["size"].as_u64().expect("bytes") > 0);
    let loaded = &service.get("/api/ps").await["models"][0];
    assert_eq!((&loaded["context_length"], &loaded["size_vram"]), (&json!(512), &json!(0)));
    assert_eq!(loaded["digest"], tag["digest"]);
    for (path, name) in [(CHAT, "tiny:7b"), ("/api/show", "gpt:latest")] {
        let request = json_request(path, json!({"model": name}).to_string());
        let (status, error) = status_and_error(&service, request).await;
        assert_eq!((status, error), (404, format!("no model {name:?} here; known: tiny")));
    }
}

#[tokio::test]
async fn embeddings_are_those_of_openais_route() {
    let service = plain();
    let texts = json!(["hello", "world"]);
    let openai = service.post("/v1/embeddings", json!({"input": texts})).await;
    let ollama = service.post("/api/embed", json!({"model": "tiny", "input": texts})).await;
    for index in 0..2 {
        assert_eq!(ollama["embeddings"][index], openai["data"][index]["embedding"]);
    }
    assert_eq!(ollama["prompt_eval_count"], openai["usage"]["prompt_tokens"]);
    let one = service.post("/api/embed", json!({"input": "hello", "dimensions": 8})).await;
    assert_eq!(one["embeddings"][0].as_array().expect("numbers").len(), 8);
    let old = service.post("/api/embeddings", json!({"prompt": "hello"})).await;
    assert_eq!(old["embedding"], ollama["embeddings"][0]);
    let nothing = service.post("/api/embeddings", json!({"model": "tiny"})).await;
    assert_eq!(nothing["embedding"], json!([]));

    let long = "a".repeat(1000);
    let cut = service.post("/api/embed", json!({"input": long})).await;
    assert_eq!(cut["prompt_eval_count"], 256);
    let same = service.post("/api/embed", json!({"input": &long[..256]})).await;
    assert_eq!(cut["embeddings"], same["embeddings"]);
    let whole = json!({"input": long, "truncate": false});
    check_refused(
        &service,
        "/api/embed",
        whole,
        "the prompt has at least 257 tokens, the limit is 256",
    )
    .await;
}

#[tokio::test]
async fn errors_have_ollamas_shape_wherever_they_come_up() {
    let config = ServerConfig { api_keys: vec!["k".to_owned()], ..ServerConfig::default() };
    let (status, error) = status_and_error(&Service::start(config), get_request("/api/tags")).await;
    assert_eq!(status, 401);
    assert!(error.contains("Authorization: Bearer"), "{error}");

    let service = plain();
    let delete = Request::delete("/api/delete").body(Body::empty()).expect("a request");
    let head = json_request("/api/blobs/sha256:0", "");
    let changing = ["/api/pull", "/api/push", "/api/create", "/api/copy"];
    let changing = changing.map(|path| json_request(path, r#"{"model": "a"}"#));
    for request in changing.into_iter().chain([delete, head]) {
        let (status, error) = status_and_error(&service, request).await;
        assert_eq!(status, 403);
        assert!(error.starts_with("this server's models are chosen"), "{error}");
    }
    let options =
        |options: Value| json_request(CHAT, hello(json!({"options": options})).to_string());
    for (request, status, want) in [
        (get_request("/api/nothing"), 404, "nothing is at /api/nothing"),
        (get_request(CHAT), 405, "/api/chat does not take GET"),
        (json_request(CHAT, "{"), 400, "the body is not valid JSON"),
        (json_request(CHAT, r#"{"seed": 1}"#), 400, "unknown field \"seed\""),
        (options(json!({"temperature": -1})), 400, "options.temperature is -1: it must be"),
        (options(json!({"repeat_penalty": 0})), 400, "options.repeat_penalty is 0: it must be"),
        (options(json!({"num_predict": 0})), 400, "options.num_predict is 0: it must be"),
        (options(json!({"num_predict": 999})), 400, "options.num_predict is 999: it must be"),
        (options(json!({"num_ctx": 9999})), 400, "options.num_ctx is 9999: \"tiny\" is served"),
    ] {
        let found = status_and_error(&service, request).await;
        assert!(found.0 == status && found.1.starts_with(want), "{found:?}");
    }
    let fitting = hello(json!({"options": {"num_ctx": 512, "num_predict": 2}, "stream": false}));
    assert_eq!(service.post(CHAT, fitting).await["eval_count"], 2);
}

#[tokio::test]
async fn clients_find_the_server_alive() {
    let service = plain();
    for path in ["/", "/api/version", "/api/tags"] {
        let head = Request::head(path).body(Body::empty()).expect("a request");
        assert_eq!(service.send(head).await.status(), 200, "{path}");
        assert_eq!(service.send(get_request(path)).await.status(), 200, "{path}");
    }
    let versions: BTreeSet<_> = [service.get("/api/version").await, service.get("/version").await]
        .map(|version| version["version"].as_str().expect("a version").to_owned())
        .into();
    assert!(versions.contains(env!("CARGO_PKG_VERSION")), "{versions:?}");
    assert_eq!(versions.len(), 2, "one is Ollama's API, the other this server");
}
