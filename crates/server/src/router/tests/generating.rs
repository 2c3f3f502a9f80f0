//! The routes with a tiny model behind them, whose words have no sense but are always the same.

use terrace_engine::text::{GenerationConfig, LanguageModel};
use terrace_engine::{ComputeChoice, InferenceConfig, Precision};
use terrace_model::{Adapter, Families, LoadedModel};
use terrace_testkit::{TinyModel, golden_set};

use super::*;
use crate::language::{LanguageService, TokenNames};

/// A service with one model, sent requests in turn.
pub struct Service {
    app: Router,
    model: Arc<LanguageModel>,
    names: TokenNames,
}

impl Service {
    pub fn start(config: ServerConfig) -> Self {
        Self::start_models(config, vec![tiny("tiny")])
    }

    /// The first model is the one whose tokens are named.
    pub fn start_models(config: ServerConfig, models: Vec<Arc<LanguageModel>>) -> Self {
        let model = Arc::clone(&models[0]);
        let language = LanguageService::new(models, config.chat_template.as_deref());
        let language = language.expect("a template, and names that differ");
        let names = language.models()[0].token_names();
        let (_canceller, cancel) = cancel_signal();
        let app = router(Arc::new(AppState::new(
            config,
            Services { language, ..Services::default() },
            cancel,
        )));
        Self { app, model, names }
    }

    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    pub async fn send(&self, request: Request<Body>) -> Response {
        self.app.clone().oneshot(request).await.expect("a router cannot fail")
    }

    /// The response to a body without mistakes.
    pub async fn post(&self, path: &str, body: Value) -> Value {
        let response = self.send(json_request(path, body.to_string())).await;
        let (status, text) = (response.status(), text_of(response).await);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The complaint about a body with one.
    pub async fn refused(&self, path: &str, body: Value) -> Value {
        let response = self.send(json_request(path, body.to_string())).await;
        assert_eq!(response.status(), 400, "{body}");
        error_of(response).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let response = self.send(get_request(path)).await;
        let (status, text) = (response.status(), text_of(response).await);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The lines of a stream of JSON.
    pub async fn lines(&self, path: &str, body: Value) -> Vec<Value> {
        let response = self.send(json_request(path, body.to_string())).await;
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let text = text_of(response).await;
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The events of a stream; each has the name that its data says.
    pub async fn named_events(&self, path: &str, mut body: Value) -> Vec<Value> {
        body["stream"] = json!(true);
        let response = self.send(json_request(path, body.to_string())).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = text_of(response).await;
        let events = text.split_terminator("\n\n").map(|event| {
            let (name, data) = event.split_once('\n').expect("a name and data");
            let data: Value =
                serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        });
        events.collect()
    }

    /// The events of a stream, without the `[DONE]` that must end it.
    pub async fn stream(&self, path: &str, body: Value) -> Vec<Value> {
        let response = self.send(json_request(path, body.to_string())).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = text_of(response).await;
        let mut data: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{text}");
        data.into_iter().map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}

fn tiny(name: &str) -> Arc<LanguageModel> {
    tiny_computed(name, ComputeChoice::Fast)
}

fn tiny_computed(name: &str, compute: ComputeChoice) -> Arc<LanguageModel> {
    let mut model = tiny_files();
    model.name = name.to_owned();
    started(model, compute)
}

pub fn tiny_files() -> LoadedModel {
    LoadedModel::open(&TinyModel::new().path(), &Families::known()).expect("a model")
}

fn started(model: LoadedModel, compute: ComputeChoice) -> Arc<LanguageModel> {
    let config = InferenceConfig {
        dtype: Precision::Fp32,
        threads: Some(2),
        compute,
        ..InferenceConfig::default()
    };
    Arc::new(LanguageModel::start(model, &config, || {}).expect("an engine"))
}

fn service() -> Service {
    Service::start(ServerConfig::default())
}

/// What all requests here are for: a greedy output of this many tokens.
fn greedy(tokens: usize, rest: Value) -> Value {
    let mut body = json!({"temperature": 0, "max_tokens": tokens, "ignore_eos": true});
    for (name, value) in rest.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

pub fn hello() -> Value {
    json!({"messages": [{"role": "user", "content": "hello"}]})
}

#[tokio::test]
async fn a_models_adapter_is_listed() {
    let model = tiny_files();
    let adapter = Adapter::open(&golden_set("adapters").join("lora"), &model.spec);
    let model = model.with_adapter(adapter.expect("a good adapter")).expect("it fits");
    let models = vec![started(model, ComputeChoice::Fast), tiny("tiny")];
    let list = Service::start_models(ServerConfig::default(), models).get("/v1/models").await;
    let adapters = [0, 1].map(|model| list["data"][model].get("adapter").cloned());
    assert_eq!(adapters, [Some(json!("lora")), None]);
}

#[tokio::test]
async fn models_are_listed() {
    let service = service();
    let list = text_of(service.send(get_request("/v1/models")).await).await;
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("tiny")));
    let one = text_of(service.send(get_request("/v1/models/tiny")).await).await;
    assert_eq!(serde_json::from_str::<Value>(&one).expect("JSON"), list["data"][0]);
    let running = text_of(service.send(get_request("/engine_check")).await).await;
    assert_eq!(running, r#"{"status":"Running"}"#);
}

#[tokio::test]
async fn whole_and_streamed_completions_agree() {
    let service = service();
    let body = greedy(12, json!({"prompt": "hello", "logprobs": 1, "echo": true, "n": 2}));
    let whole = service.post("/v1/completions", body.clone()).await;
    assert_eq!(whole["object"], "text_completion");
    assert_eq!(
        whole["usage"],
        json!({
            "prompt_tokens": 5, "completion_tokens": 24, "total_tokens": 29,
            "prompt_tokens_details": {"cached_tokens": 0},
        })
    );
    assert_eq!(whole["choices"].as_array().expect("choices").len(), 2);

    let mut streamed = body;
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    let chunks = service.stream("/v1/completions", streamed).await;
    assert_eq!(chunks.last().expect("chunks")["usage"], whole["usage"]);
    for index in 0..2 {
        let whole = &whole["choices"][index];
        let parts = chunks.iter().map(|chunk| &chunk["choices"][0]);
        let parts: Vec<_> = parts.filter(|part| part["index"] == json!(index)).collect();
        let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        assert_eq!(json!(text), whole["text"]);
        let tokens = parts.iter().flat_map(|part| part["logprobs"]["tokens"].as_array());
        let tokens: Vec<_> = tokens.flatten().cloned().collect();
        assert_eq!(json!(tokens), whole["logprobs"]["tokens"]);
        assert_eq!(parts.last().expect("parts")["finish_reason"], whole["finish_reason"]);
    }
}

#[tokio::test]
async fn a_prompt_is_scored_as_it_was_made() {
    // Where prompts and outputs are computed alike.
    let exact = tiny_computed("tiny", ComputeChoice::F32);
    let service = Service::start_models(ServerConfig::default(), vec![exact]);
    let ids = service.post("/tokenize", json!({"prompt": "hello"})).await["tokens"].clone();
    let ids = ids.as_array().expect("ids").clone();
    let made =
        service.post("/v1/completions", greedy(5, json!({"prompt": ids, "logprobs": 0}))).await;
    let made = &made["choices"][0]["logprobs"];

    // Bytes that are no text cannot be tokenised again, so the ids of the output are looked up.
    let id_of = |token: &Value| {
        (0..320).find(|&id| json!((service.names)(id).text) == *token).expect("a token")
    };
    let response =
        made["tokens"].as_array().expect("tokens").iter().map(|token| json!(id_of(token)));
    let all: Vec<Value> = ids.iter().cloned().chain(response).collect();
    let body = greedy(0, json!({"prompt": all, "logprobs": 0, "echo": true}));
    let scored = service.post("/v1/completions", body).await;
    assert_eq!(scored["usage"]["completion_tokens"], 0);
    let scored =
        scored["choices"][0]["logprobs"]["token_logprobs"].as_array().expect("scores").clone();
    assert_eq!(scored[0], Value::Null);
    for (scored, made) in
        scored[ids.len()..].iter().zip(made["token_logprobs"].as_array().expect("scores"))
    {
        let difference = scored.as_f64().expect("a score") - made.as_f64().expect("a score");
        assert!(difference.abs() < 1e-4, "{scored} {made}");
    }
}

#[tokio::test]
async fn whole_and_streamed_chats_agree() {
    let service = service();
    let mut body = greedy(12, hello());
    body["logprobs"] = json!(true);
    body["top_logprobs"] = json!(2);
    let whole = service.post("/v1/chat/completions", body.clone()).await;
    let choice = &whole["choices"][0];
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["logprobs"]["content"].as_array().expect("tokens").len(), 12);

    body["stream"] = json!(true);
    let chunks = service.stream("/v1/chat/completions", body).await;
    let deltas = || chunks.iter().map(|chunk| &chunk["choices"][0]);
    assert_eq!(deltas().next().expect("chunks")["delta"]["role"], "assistant");
    let text: String = deltas().filter_map(|part| part["delta"]["content"].as_str()).collect();
    assert_eq!(json!(text), choice["message"]["content"]);
    let tokens = deltas().flat_map(|part| part["logprobs"]["content"].as_array());
    let tokens: Vec<_> = tokens.flatten().cloned().collect();
    assert_eq!(json!(tokens), choice["logprobs"]["content"]);
    assert_eq!(deltas().next_back().expect("chunks")["finish_reason"], "length");
}

#[tokio::test]
async fn the_plain_routes_give_the_same_text() {
    let service = service();
    let body = json!({"max_new_tokens": 6, "ignore_eos": true, "prompt": "hello"});
    let plain = service.post("/completion", body.clone()).await;
    let openai = service.post("/v1/completions", greedy(6, json!({"prompt": "hello"}))).await;
    assert_eq!(plain["text"], openai["choices"][0]["text"]);
    let mut streamed = body;
    streamed["stream"] = json!("true");
    let events = service.stream("/completion", streamed).await;
    let text: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(json!(text), plain["text"]);

    let plain = service.post("/chat", greedy(6, hello())).await;
    let openai = service.post("/v1/chat/completions", greedy(6, hello())).await;
    assert_eq!(
        plain,
        json!({"role": "assistant", "text": openai["choices"][0]["message"]["content"]})
    );
}

#[tokio::test]
async fn the_servers_template_and_presets_go_before_the_models() {
    let presets =
        GenerationConfig { max_new_tokens: Some(3), ignore_eos: Some(true), ..Default::default() };
    let template = Some(r"{{ messages[0].content }}\n!".to_owned());
    let config = ServerConfig { chat_template: template, presets, ..ServerConfig::default() };
    let service = Service::start(config);
    let rendered = service.post("/tokenize", hello()).await;
    let plain = json!({"prompt": "hello\n!", "add_special_tokens": false});
    assert_eq!(rendered, service.post("/tokenize", plain).await);
    let response = service.post("/v1/chat/completions", hello()).await;
    assert_eq!(response["usage"]["completion_tokens"], 3);
}

/// What is asked, by the request or by the server, wins over the model's file at any value.
#[tokio::test]
async fn an_explicit_do_sample_false_wins_over_the_models_file() {
    let service = |presets: GenerationConfig| {
        let mut files = tiny_files();
        let sampling = r#"{"do_sample": true, "temperature": 3.0, "top_k": 300}"#;
        files.text.generation_config = Some(sampling.to_owned());
        let config = ServerConfig { presets, ..ServerConfig::default() };
        Service::start_models(config, vec![started(files, ComputeChoice::Fast)])
    };
    let sampled = service(GenerationConfig::default());
    let greedy_server =
        service(GenerationConfig { do_sample: Some(false), ..GenerationConfig::default() });
    let prompt = json!({"prompt": "hello"});
    let routes = [
        ("/v1/completions", &prompt, "/choices/0/text"),
        ("/v1/chat/completions", &hello(), "/choices/0/message/content"),
        ("/completion", &prompt, "/text"),
        ("/chat", &hello(), "/text"),
    ];
    for (route, body, text) in routes {
        let body = |rest: Value| {
            let mut body = body.clone();
            body["max_tokens"] = json!(12);
            body["ignore_eos"] = json!(true);
            body["seed"] = json!(5);
            for (name, value) in rest.as_object().expect("an object") {
                body[name] = value.clone();
            }
            body
        };
        let text_of = |response: Value| response.pointer(text).cloned().expect("a text");
        let greedy = text_of(sampled.post(route, body(json!({"temperature": 0}))).await);
        let by_file = text_of(sampled.post(route, body(json!({}))).await);
        assert_ne!(by_file, greedy, "{route}: the file must act");
        let asked = text_of(sampled.post(route, body(json!({"do_sample": false}))).await);
        assert_eq!(asked, greedy, "{route}");
        let preset = text_of(greedy_server.post(route, body(json!({}))).await);
        assert_eq!(preset, greedy, "{route}");
        let at_default = body(json!({"do_sample": true, "temperature": 1.0, "top_k": 50}));
        let by_request = text_of(sampled.post(route, at_default).await);
        assert_ne!(by_request, by_file, "{route}: temperature 1 is no temperature 3");
    }
}

#[tokio::test]
async fn text_goes_to_tokens_and_back() {
    let service = service();
    let tokens =
        service.post("/tokenize", json!({"text": "Grüße 世界", "add_special_tokens": false})).await;
    assert_eq!(tokens["count"], json!("Grüße 世界".len()));
    let back = service.post("/detokenize", json!({"tokens": tokens["tokens"]})).await;
    assert_eq!(back, json!({"prompt": "Grüße 世界", "text": "Grüße 世界"}));
    let error = service.refused("/detokenize", json!({"tokens": [99999]})).await;
    assert_eq!(error["param"], "tokens");
}

#[tokio::test]
async fn two_models_do_not_disturb_each_other() {
    let prompt = |number: usize| format!("{number} is a number");
    let body = |model: &str, number| {
        greedy(20, json!({"model": model, "prompt": prompt(number), "logprobs": 0}))
    };
    let alone = service();
    let both = Service::start_models(ServerConfig::default(), vec![tiny("a"), tiny("b")]);
    let response = async |service: &Service, model: &str, number: usize| {
        let whole = service.post("/v1/completions", body(model, number)).await;
        assert_eq!(whole["model"], model);
        whole["choices"][0].clone()
    };
    let sent =
        (0..16).map(|number| response(&both, if number % 2 == 0 { "a" } else { "b" }, number));
    for (number, found) in futures_util::future::join_all(sent).await.into_iter().enumerate() {
        assert_eq!(found, response(&alone, "tiny", number).await);
    }

    let list = text_of(both.send(get_request("/v1/models")).await).await;
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!((&list["data"][0]["id"], &list["data"][1]["id"]), (&json!("a"), &json!("b")));
    let error = both.refused("/v1/completions", json!({"prompt": "x"})).await;
    assert_eq!(error["message"], "model is missing; this server has a, b");
    let unknown = json_request("/v1/completions", r#"{"prompt": "x", "model": "c"}"#);
    let response = both.send(unknown).await;
    assert_eq!(response.status(), 404);
    assert_eq!(error_of(response).await["message"], "no model \"c\" here; known: a, b");
    let metrics = text_of(both.send(get_request("/metrics")).await).await;
    for model in ["a", "b"] {
        let line = format!(r#"terrace_time_to_first_token_seconds_count{{model="{model}"}} 8"#);
        assert!(metrics.lines().any(|found| found == line), "{line} not in\n{metrics}");
    }
}

#[tokio::test]
async fn embeddings_do_not_depend_on_encoding_or_batch() {
    let service = service();
    let ids = service.post("/tokenize", json!({"prompt": "hello"})).await["tokens"].clone();
    let inputs = json!({"input": ["hello", "world", "hello"]});
    let list = service.post("/v1/embeddings", inputs).await;
    assert_eq!((&list["object"], &list["model"]), (&json!("list"), &json!("tiny")));
    assert_eq!(list["usage"], json!({"prompt_tokens": 15, "total_tokens": 15}));
    let embedding = |index: usize| list["data"][index]["embedding"].clone();
    assert_eq!(list["data"][2]["index"], 2);
    assert_eq!(embedding(0), embedding(2));
    assert_ne!(embedding(0), embedding(1));
    let numbers = embedding(0);
    let numbers = numbers.as_array().expect("numbers").iter().map(|number| number.as_f64());
    let length: f64 = numbers.map(|number| number.expect("a number").powi(2)).sum();
    assert!((length - 1.0).abs() < 1e-5, "{length}");

    let alone = service.post("/v1/embeddings", json!({"input": ids})).await;
    assert_eq!(alone["data"][0]["embedding"], embedding(0));
    let short = service.post("/v1/embeddings", json!({"input": "hello", "dimensions": 8})).await;
    assert_eq!(short["data"][0]["embedding"].as_array().expect("numbers").len(), 8);
    for (name, body) in [
        ("dimensions", json!({"input": "a", "dimensions": 100_000})),
        ("input", json!({"input": ""})),
        ("input", json!({"input": "a".repeat(1000)})),
        ("input", json!({"input": [99999]})),
    ] {
        assert_eq!(service.refused("/v1/embeddings", body).await["param"], name);
    }
}

#[tokio::test]
async fn wrong_values_are_refused_by_name() {
    let service = service();
    for (name, value) in [
        ("temperature", json!(-1)),
        ("top_p", json!(7)),
        ("n", json!(0)),
        ("n", json!(500)),
        ("logprobs", json!(99)),
        ("logit_bias", json!({"99999": 1})),
        ("stop", json!("")),
        ("priority", json!(1000)),
    ] {
        let error = service.refused("/v1/completions", json!({"prompt": "a", name: value})).await;
        assert_eq!(error["param"], name, "{error}");
    }
    let error = service.refused("/v1/completions", json!({"prompt": ""})).await;
    assert_eq!(error["param"], "prompt", "{error}");
    let error = service.refused("/v1/completions", json!({"prompt": "a".repeat(1000)})).await;
    assert_eq!(error["code"], "context_length_exceeded", "{error}");
    let error = service.refused("/v1/completions", json!({"prompt": [99999]})).await;
    assert_eq!(error["param"], "prompt", "{error}");
}

#[tokio::test]
async fn options_that_forbid_every_token_are_the_clients_mistake() {
    // The model has 320 tokens, and each may come once.
    let prompt: Vec<_> = (3..=250).collect();
    let body = greedy(200, json!({"prompt": prompt, "no_repeat_ngram_size": 1}));
    let error = service().refused("/v1/completions", body).await;
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("forbid every token"), "{message}");
    assert_eq!(error["type"], "invalid_request_error");
}

#[tokio::test]
async fn dropping_a_response_frees_its_pages() {
    let service = service();
    let body = greedy(250, json!({"prompt": "hello", "stream": true}));
    let response = service.send(json_request("/v1/completions", body.to_string())).await;
    let mut body = response.into_body();
    body.frame().await.expect("a first event").expect("a body in memory");
    drop(body);
    // Ends only if the request is cancelled or has come to its end; the count tells which.
    while service.model.stats().running + service.model.stats().waiting > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let stats = service.model.stats();
    assert_eq!(stats.pages_free, stats.pages_total);
    let metrics = text_of(service.send(get_request("/metrics")).await).await;
    let free = format!(r#"terrace_kv_cache_pages_free{{model="tiny"}} {}"#, stats.pages_total);
    assert!(metrics.lines().any(|line| line == free), "{metrics}");
}
