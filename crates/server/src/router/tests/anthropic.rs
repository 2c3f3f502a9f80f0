//! Anthropic's routes, with a tiny model behind them whose words have no sense.

use serde_json::{Value, json};

use super::generating::{Service, hello};
use super::*;

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

/// Shows roles, so that turns can be distinguished, and its options about thinking.
const TEMPLATE: &str = "{% if enable_thinking is defined %}[{{ enable_thinking }}]{% endif %}\
    {% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}\
    {% if add_generation_prompt %}assistant:{% endif %}";
const THINKING: &str = "{{ messages[0].content }}{# <think></think> #}";
const HERMES: &str = "{% if tools %}{# <tool_call> #}{% endif %}{{ messages[0].content }}";

fn service(template: &str) -> Service {
    let chat_template = Some(template.to_owned());
    Service::start(ServerConfig { chat_template, ..ServerConfig::default() })
}

/// A request for a greeting, with further fields.
fn body_with(rest: Value) -> Value {
    let mut body = hello();
    body["max_tokens"] = json!(100);
    body["temperature"] = json!(0);
    for (name, value) in rest.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// One tool of few words.
fn tools() -> Value {
    json!([{"name": "f", "description": "Eff.", "input_schema": {
        "type": "object", "properties": {"x": {"enum": ["a", "b"]}}, "required": ["x"],
        "additionalProperties": false, "x-guidance": {"whitespace_flexible": false},
    }}])
}

/// The texts of all deltas of a kind.
fn deltas(events: &[Value], field: &str) -> String {
    events.iter().filter_map(|event| event["delta"][field].as_str()).collect()
}

/// What refuses the request: its status, and its `error`.
async fn refused(service: &Service, path: &str, body: Value) -> (u16, Value) {
    let response = service.send(json_request(path, body.to_string())).await;
    (response.status().as_u16(), anthropic_error(response).await)
}

/// The `error` of a response whose frame is right.
async fn anthropic_error(response: Response) -> Value {
    let id = response.headers()["request-id"].to_str().expect("ascii").to_owned();
    assert_eq!(response.headers()["x-request-id"], id);
    assert_eq!(response.headers()["content-type"], "application/json");
    let length = response.headers().get("content-length").cloned();
    let text = text_of(response).await;
    if let Some(length) = length {
        assert_eq!(length.to_str().expect("digits"), text.len().to_string());
    }
    let mut body: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!(id)));
    body["error"].take()
}

#[tokio::test]
async fn whole_and_streamed_messages_agree() {
    let service = service(TEMPLATE);
    let body = body_with(json!({"max_tokens": 12, "ignore_eos": true}));
    let whole = service.post(MESSAGES, body.clone()).await;
    assert!(whole["id"].as_str().expect("an id").starts_with("msg_"));
    assert_eq!((&whole["type"], &whole["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(whole["model"], "tiny");
    assert_eq!(whole["stop_reason"], "max_tokens");
    assert_eq!(whole["stop_sequence"], Value::Null);
    assert_eq!(whole["usage"]["output_tokens"], 12);

    let events = service.named_events(MESSAGES, body).await;
    let names: Vec<_> =
        events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(names[..3], ["message_start", "ping", "content_block_start"]);
    let last = names.len() - 3;
    assert_eq!(names[last..], ["content_block_stop", "message_delta", "message_stop"]);
    assert!(names[3..last].iter().all(|name| *name == "content_block_delta"), "{names:?}");
    assert_eq!(json!([{"type": "text", "text": deltas(&events, "text")}]), whole["content"]);
    assert_eq!(events[last + 1]["delta"]["stop_reason"], "max_tokens");
    let ended = &events[last + 1]["usage"];
    assert_eq!(ended["output_tokens"], whole["usage"]["output_tokens"]);
    assert_eq!(prompt_tokens(ended), prompt_tokens(&whole["usage"]));
    let begun = &events[0]["message"]["usage"];
    assert_eq!(prompt_tokens(begun), prompt_tokens(&whole["usage"]));
    assert_eq!(begun["output_tokens"], 0);
}

#[tokio::test]
async fn a_prompt_that_comes_again_is_read_from_the_cache() {
    let service = service(TEMPLATE);
    let body = body_with(json!({"max_tokens": 2, "system": "Be kind. ".repeat(8)}));
    let first = service.post(MESSAGES, body.clone()).await["usage"].clone();
    assert_eq!(first["cache_read_input_tokens"], 0);
    let again = service.post(MESSAGES, body).await["usage"].clone();
    assert!(again["cache_read_input_tokens"].as_u64() > Some(0), "{again}");
    assert_eq!(prompt_tokens(&again), first["input_tokens"]);
}

#[tokio::test]
async fn a_system_text_and_blocks_reach_the_template() {
    let service = service(TEMPLATE);
    let body = json!({
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ],
    });
    let prompt = "system:Be kind.;user:a;assistant:b;user:c;assistant:";
    assert_eq!(counted(&service, body.clone()).await, tokens_of(&service, prompt).await);
    let used = service.post(MESSAGES, merged(body, json!({"max_tokens": 2}))).await;
    assert_eq!(prompt_tokens(&used["usage"]), tokens_of(&service, prompt).await);
}

#[tokio::test]
async fn a_last_message_of_the_assistants_is_continued() {
    let service = service(TEMPLATE);
    let said = |text: &str| {
        json!({"messages": [
            {"role": "user", "content": "a"}, {"role": "assistant", "content": text}]})
    };
    let want = tokens_of(&service, "user:a;assistant:The answer is").await;
    assert_eq!(counted(&service, said("The answer is")).await, want);
    let options = json!({"max_tokens": 8, "temperature": 0, "ignore_eos": true});
    let message = service.post(MESSAGES, merged(said("The answer is"), options.clone())).await;
    assert_eq!(prompt_tokens(&message["usage"]), want);
    let prompt = json!({"prompt": "user:a;assistant:The answer is", "add_special_tokens": false});
    let ids = service.post("/tokenize", prompt).await["tokens"].clone();
    let plain = merged(json!({"prompt": ids}), options);
    let plain = service.post("/v1/completions", plain).await;
    assert_eq!(message["content"][0]["text"], plain["choices"][0]["text"]);
}

#[tokio::test]
async fn tools_are_counted() {
    // This template knows no tools, so that they go into the system message.
    let service = service(TEMPLATE);
    let body = json!({"messages": [{"role": "user", "content": "a"}]});
    let without = counted(&service, body.clone()).await;
    let with = counted(&service, merged(body, json!({"tools": tools()}))).await;
    assert!(with.as_u64() > without.as_u64().map(|count| count + 50), "{with} {without}");
}

#[tokio::test]
async fn thinking_is_an_option_of_the_template() {
    let service = service(TEMPLATE);
    for (thinking, prompt) in [
        (Value::Null, "user:hello;assistant:"),
        (json!({"type": "adaptive"}), "[true]user:hello;assistant:"),
        (json!({"type": "enabled", "budget_tokens": 1024}), "[true]user:hello;assistant:"),
        (json!({"type": "disabled"}), "[false]user:hello;assistant:"),
    ] {
        let body = merged(hello(), json!({"thinking": thinking}));
        assert_eq!(counted(&service, body).await, tokens_of(&service, prompt).await, "{thinking}");
    }
}

#[tokio::test]
async fn thinking_is_a_block_before_the_text() {
    let service = service(THINKING);
    let body = body_with(json!({"guided_choice": ["<think>\nHm, 4.\n</think>\n\nFour."]}));
    let whole = service.post(MESSAGES, body.clone()).await;
    let want = json!([
        {"type": "thinking", "thinking": "Hm, 4.", "signature": ""},
        {"type": "text", "text": "Four."},
    ]);
    assert_eq!((&whole["content"], &whole["stop_reason"]), (&want, &json!("end_turn")));
    let events = service.named_events(MESSAGES, body).await;
    assert_eq!(deltas(&events, "thinking"), "Hm, 4.");
    assert_eq!(deltas(&events, "text"), "Four.");
    let kinds = events.iter().filter_map(|event| event["delta"]["type"].as_str());
    assert_eq!(kinds.filter(|kind| *kind == "signature_delta").count(), 1);
}

#[tokio::test]
async fn a_stop_sequence_is_named() {
    let service = service(TEMPLATE);
    let stops = json!(["STOP", "END"]);
    let body = body_with(json!({"guided_choice": ["Well. END of it"], "stop_sequences": stops}));
    let whole = service.post(MESSAGES, body.clone()).await;
    assert_eq!(whole["content"], json!([{"type": "text", "text": "Well. "}]));
    assert_eq!(whole["stop_reason"], "stop_sequence");
    assert_eq!(whole["stop_sequence"], "END");
    let events = service.named_events(MESSAGES, body).await;
    let end = &events[events.len() - 2]["delta"];
    assert_eq!(*end, json!({"stop_reason": "stop_sequence", "stop_sequence": "END"}));
}

#[tokio::test]
async fn a_demanded_call_comes_and_its_result_goes_back() {
    let service = service(HERMES);
    let any = json!({"tools": tools(), "tool_choice": {"type": "any"}});
    let named = json!({"tools": tools(), "tool_choice": {"type": "tool", "name": "f"}});
    let single = json!({"type": "any", "disable_parallel_tool_use": true});
    for (rest, is_single) in
        [(any, false), (named, true), (json!({"tools": tools(), "tool_choice": single}), true)]
    {
        let body = body_with(rest);
        let whole = service.post(MESSAGES, body.clone()).await;
        assert_eq!(whole["stop_reason"], "tool_use", "{whole}");
        let content = whole["content"].as_array().expect("blocks");
        assert!(content.len() == 1 || !is_single, "{whole}");
        for block in content {
            assert_eq!((&block["type"], &block["name"]), (&json!("tool_use"), &json!("f")));
            let input = &block["input"];
            assert!(*input == json!({"x": "a"}) || *input == json!({"x": "b"}), "{input}");
        }
        let events = service.named_events(MESSAGES, body).await;
        let inputs: String = content.iter().map(|block| block["input"].to_string()).collect();
        assert_eq!(deltas(&events, "partial_json").replace(": ", ":"), inputs);
        assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");

        let id = &content[0]["id"];
        assert!(id.as_str().is_some_and(|id| id.starts_with("toolu_")), "{id}");
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": "42"});
        let round = json!({"max_tokens": 2, "tools": tools(), "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]});
        assert_eq!(service.post(MESSAGES, round).await["type"], "message");
    }
}

#[tokio::test]
async fn a_call_that_is_cut_is_left_out() {
    let service = service(HERMES);
    let rest = json!({"tools": tools(), "tool_choice": {"type": "any"}, "max_tokens": 14});
    let message = service.post(MESSAGES, body_with(rest)).await;
    assert_eq!(message["stop_reason"], "max_tokens");
    assert_eq!(message["content"], json!([]));
}

#[tokio::test]
async fn a_format_holds() {
    let service = service(TEMPLATE);
    let format = json!({"type": "json_schema", "schema": {"enum": ["yes", "no"]}});
    let message =
        service.post(MESSAGES, body_with(json!({"output_config": {"format": format}}))).await;
    let text = message["content"][0]["text"].as_str().expect("a text");
    assert!(["\"yes\"", "\"no\""].contains(&text.trim()), "{text}");
    let bad = json!({"type": "json_schema", "schema": {"type": "poem"}});
    let (status, error) =
        refused(&service, MESSAGES, body_with(json!({"output_config": {"format": bad}}))).await;
    assert_eq!((status, &error["type"]), (400, &json!("invalid_request_error")));
    assert!(error["message"].as_str().expect("a message").contains("output_config"), "{error}");
}

#[tokio::test]
async fn refused_requests_have_anthropics_shape() {
    let service = service(TEMPLATE);
    for (rest, status, kind, message) in [
        (json!({"model": "claude"}), 404, "not_found_error", "no model \"claude\" here"),
        (json!({"max_tokens": null}), 400, "invalid_request_error", "max_tokens is missing"),
        (json!({"max_tokens": 0}), 400, "invalid_request_error", "max_tokens is 0"),
        (json!({"stop_sequences": [""]}), 400, "invalid_request_error", "stop_sequences is"),
        (json!({"temperature": -1}), 400, "invalid_request_error", "temperature is -1"),
        (
            json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
            400,
            "invalid_request_error",
            "bash_20250124",
        ),
        (json!({"max_tokens": 100_000}), 400, "invalid_request_error", "100000"),
    ] {
        let (found, error) = refused(&service, MESSAGES, body_with(rest)).await;
        assert_eq!((found, &error["type"]), (status, &json!(kind)), "{error}");
        assert!(error["message"].as_str().expect("a message").contains(message), "{error}");
    }
    let (status, error) = refused(&service, COUNT, body_with(json!({}))).await;
    assert_eq!((status, &error["message"]), (400, &json!("unknown field \"max_tokens\"")));
}

#[tokio::test]
async fn what_fails_before_the_route_has_anthropics_shape_too() {
    let keys = vec!["k".to_owned()];
    let config = ServerConfig { api_keys: keys, ..ServerConfig::default() };
    let key = |request: Request<Body>, key: &str| {
        let mut request = request;
        request.headers_mut().insert("x-api-key", key.parse().expect("ascii"));
        request
    };
    let plain = Request::post(MESSAGES).body(Body::from("{}")).expect("a request");
    for (request, status, kind) in [
        (json_request(MESSAGES, "{}"), 401, "authentication_error"),
        (key(json_request(MESSAGES, "{}"), "wrong"), 401, "authentication_error"),
        (key(json_request(MESSAGES, "{"), "k"), 400, "invalid_request_error"),
        (key(get_request(MESSAGES), "k"), 405, "invalid_request_error"),
        (key(get_request("/v1/messages/batches"), "k"), 404, "not_found_error"),
        (key(plain, "k"), 415, "invalid_request_error"),
    ] {
        let response = send(config.clone(), request).await;
        assert_eq!(response.status(), status, "{kind}");
        assert_eq!(anthropic_error(response).await["type"], kind, "{status}");
    }
    // Elsewhere errors keep their shape.
    let response = send(config, key(get_request("/v1/messagesabc"), "k")).await;
    assert_eq!(error_of(response).await["type"], "invalid_request_error");
}

fn merged(mut body: Value, rest: Value) -> Value {
    for (name, value) in rest.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// Computed or found in the prefix cache.
fn prompt_tokens(usage: &Value) -> Value {
    let count = |name: &str| usage[name].as_u64().expect("a count");
    json!(count("input_tokens") + count("cache_read_input_tokens"))
}

async fn counted(service: &Service, body: Value) -> Value {
    service.post(COUNT, body).await["input_tokens"].clone()
}

async fn tokens_of(service: &Service, text: &str) -> Value {
    let body = json!({"prompt": text, "add_special_tokens": false});
    service.post("/tokenize", body).await["count"].clone()
}
