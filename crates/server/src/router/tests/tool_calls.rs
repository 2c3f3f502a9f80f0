//! Tool calls and structured outputs, from a model that has no sense: what comes is right
//! because nothing else can be written.

use serde_json::{Value, json};

use super::generating::{Service, hello};
use crate::server_config::ServerConfig;

const CHAT: &str = "/v1/chat/completions";

/// Templates that name their format and show nothing of the tools: the tiny model has a short
/// context.
const HERMES: &str = "{% if tools %}{# <tool_call> #}{% endif %}{{ messages[0].content }}";
const MISTRAL: &str = "{% if tools %}{# [TOOL_CALLS] #}{% endif %}{{ messages[0].content }}";
const LLAMA: &str =
    r#"{% if tools %}{# ipython "parameters" #}{% endif %}{{ messages[0].content }}"#;

fn service(template: &str) -> Service {
    let chat_template = Some(template.to_owned());
    Service::start(ServerConfig { chat_template, ..ServerConfig::default() })
}

/// Two functions of few words.
fn body_with(rest: Value) -> Value {
    let function = |name: &str, values: Value| {
        let parameters = json!({
            "type": "object", "properties": {"x": {"enum": values}}, "required": ["x"],
            "additionalProperties": false, "x-guidance": {"whitespace_flexible": false},
        });
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    let mut body = hello();
    body["tools"] = json!([function("f", json!(["a", "b"])), function("g", json!([1, 2]))]);
    body["max_tokens"] = json!(200);
    for (name, value) in rest.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

fn calls_of(choice: &Value) -> Vec<(String, Value)> {
    let calls = choice["message"]["tool_calls"].as_array().expect("calls").iter();
    calls
        .map(|call| {
            assert_eq!(call["type"], "function");
            assert_eq!(call["id"].as_str().expect("an id").len(), 9);
            let arguments = call["function"]["arguments"].as_str().expect("a text");
            let arguments = serde_json::from_str(arguments).expect("JSON");
            (call["function"]["name"].as_str().expect("a name").to_owned(), arguments)
        })
        .collect()
}

#[track_caller]
fn check_call((name, arguments): &(String, Value)) {
    let values = if name == "f" { [json!("a"), json!("b")] } else { [json!(1), json!(2)] };
    assert!(values.iter().any(|value| *arguments == json!({"x": value})), "{name} {arguments}");
}

#[tokio::test]
async fn required_calls_parse_in_every_format() {
    for template in [HERMES, MISTRAL, LLAMA] {
        let service = service(template);
        for seed in 0..4 {
            let body = body_with(json!({
                "tool_choice": "required", "parallel_tool_calls": false, "seed": seed
            }));
            let whole = service.post(CHAT, body.clone()).await;
            let choice = &whole["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{template}: {choice}");
            assert_eq!(choice["message"]["content"], Value::Null);
            let calls = calls_of(choice);
            assert_eq!(calls.len(), 1);
            check_call(&calls[0]);

            let mut streamed = body;
            streamed["stream"] = json!(true);
            let chunks = service.stream(CHAT, streamed).await;
            let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]);
            let texts = deltas.clone().filter_map(|delta| delta["function"]["arguments"].as_str());
            let arguments: String = texts.collect();
            let message = &choice["message"]["tool_calls"][0]["function"];
            assert_eq!(json!(arguments), message["arguments"], "{template}");
            let mut names = deltas.filter_map(|delta| delta["function"]["name"].as_str());
            assert_eq!((names.next(), names.next()), (message["name"].as_str(), None));
            let last = &chunks.last().expect("chunks")["choices"][0];
            assert_eq!(last["finish_reason"], "tool_calls");
        }
    }
}

#[tokio::test]
async fn a_named_call_is_the_only_one() {
    let service = service(HERMES);
    let named = json!({"type": "function", "function": {"name": "g"}});
    let response = service.post(CHAT, body_with(json!({"tool_choice": named, "n": 3}))).await;
    for choice in response["choices"].as_array().expect("choices") {
        let calls = calls_of(choice);
        assert_eq!((calls.len(), calls[0].0.as_str()), (1, "g"));
        check_call(&calls[0]);
    }
}

#[tokio::test]
async fn calls_are_read_where_they_are_free() {
    let call = |name: &str| format!("[TOOL_CALLS][{{\"name\": \"{name}\", \"arguments\": {{}}}}]");
    let service = service(MISTRAL);
    for (text, content, count) in [
        (call("f"), Value::Null, 1),
        (format!("Well. {}", call("g")), json!("Well."), 1),
        ("Just words.".to_owned(), json!("Just words."), 0),
    ] {
        let response = service.post(CHAT, body_with(json!({"guided_choice": [text]}))).await;
        let choice = &response["choices"][0];
        assert_eq!(choice["message"]["content"], content);
        let calls = choice["message"]["tool_calls"].as_array().map_or(0, Vec::len);
        let reason = if count == 0 { "stop" } else { "tool_calls" };
        assert_eq!((calls, &choice["finish_reason"]), (count, &json!(reason)));
    }
}

#[tokio::test]
async fn a_structured_output_may_come_instead_of_a_call() {
    let service = service(HERMES);
    let format = json!({"type": "json_schema", "json_schema": {"schema": {"enum": ["yes", "no"]}}});
    let mut calls = 0;
    for seed in 0..12 {
        let body = body_with(json!({"response_format": format, "seed": seed, "temperature": 2}));
        let response = service.post(CHAT, body).await;
        let choice = &response["choices"][0];
        match choice["finish_reason"].as_str() {
            Some("tool_calls") => {
                calls_of(choice).iter().for_each(check_call);
                calls += 1;
            }
            _ => {
                let text = choice["message"]["content"].as_str().expect("a text");
                assert!(["\"yes\"", "\"no\""].contains(&text.trim()), "{choice}");
            }
        }
    }
    assert!((1..12).contains(&calls), "one of the two never came: {calls} calls");
}

#[tokio::test]
async fn a_required_call_goes_before_a_grammar() {
    let format = json!({"type": "json_schema", "json_schema": {"schema": {"type": "array"}}});
    let body = json!({"tool_choice": "required", "response_format": format});
    let whole = service(HERMES).post(CHAT, body_with(body)).await;
    calls_of(&whole["choices"][0]).iter().for_each(check_call);
    let body = body_with(json!({"tool_choice": "required", "guided_regex": "a"}));
    let error = service(HERMES).refused(CHAT, body).await;
    assert_eq!(error["param"], "tool_choice");
}

#[tokio::test]
async fn a_structured_output_leaves_no_reasoning() {
    let service = service("{{ messages[0].content }}<think>\n");
    let mut body = hello();
    body["guided_choice"] = json!(["yes", "no"]);
    let whole = service.post(CHAT, body).await;
    let message = &whole["choices"][0]["message"];
    assert!(["yes", "no"].iter().any(|text| message["content"] == *text), "{message}");
    assert_eq!(message.get("reasoning_content"), None);
}

#[tokio::test]
async fn an_overlapping_one_of_is_noted_in_the_warnings() {
    let schema = json!({"oneOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]});
    let want = json!(["oneOf at $ is taken as anyOf: a value may fit several of its options"]);
    let service = service(HERMES);
    let mut body = hello();
    body["guided_json"] = schema.clone();
    assert_eq!(service.post(CHAT, body.clone()).await["warnings"], want);
    body["stream"] = json!(true);
    assert_eq!(service.stream(CHAT, body).await[0]["warnings"], want);
    let body = json!({"prompt": "a", "guided_json": schema});
    assert_eq!(service.post("/v1/completions", body).await["warnings"], want);
    let function = json!({"name": "f", "parameters": {"properties": {"x": schema}}});
    let tools = json!([{"type": "function", "function": function}]);
    let body = body_with(json!({"tools": tools, "tool_choice": "required"}));
    let warnings = service.post(CHAT, body).await["warnings"].clone();
    assert!(warnings[0].as_str().is_some_and(|it| it.contains("oneOf at $.properties.x")));
}

#[tokio::test]
async fn a_call_that_is_cut_leaves_no_markup() {
    let service = service(HERMES);
    let response =
        service.post(CHAT, body_with(json!({"tool_choice": "required", "max_tokens": 14}))).await;
    let choice = &response["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["message"]["content"], "");
    assert_eq!(choice["message"].get("tool_calls"), None);
}

#[tokio::test]
async fn grammars_hold_on_every_generating_route() {
    let service = service("{{ messages[0].content }}");
    let body = json!({"guided_choice": ["yes", "no"], "max_tokens": 20, "prompt": "a"});
    let response = service.post("/v1/completions", body.clone()).await;
    let is_choice = |text: &Value| *text == "yes" || *text == "no";
    assert!(is_choice(&response["choices"][0]["text"]), "{response}");
    let response = service.post("/completion", body).await;
    assert!(is_choice(&response["text"]), "{response}");
    let mut body = hello();
    body["guided_choice"] = json!(["yes", "no"]);
    assert!(is_choice(&service.post("/chat", body.clone()).await["text"]));
    body["guided_choice"] = json!([]);
    let error = service.refused("/chat", body).await;
    assert_eq!(error["param"], "guided_choice", "{error}");
}
