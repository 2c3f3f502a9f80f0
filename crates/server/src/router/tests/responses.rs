//! The Responses API, with a tiny model behind it whose words have no sense.

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::generating::Service;
use super::*;

const RESPONSES: &str = "/v1/responses";

/// Shows the whole conversation in few tokens.
const TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] }}:{{ m.reasoning_content }}\
    {{ m.content or '' }}{% for c in m.tool_calls %}!{{ c.function.name }}{% endfor %};\
    {% endfor %}";
const HERMES: &str = "{% if tools %}{# <tool_call> #}{% endif %}\
    {% for m in messages %}{{ m.role[0] }}:{{ m.content or '' }};{% endfor %}";
const THINKING: &str = "{# <think></think> #}{% for m in messages %}{{ m.role[0] }}:\
    {{ m.reasoning_content }}{{ m.content or '' }};{% endfor %}";

fn service(template: &str) -> Service {
    let chat_template = Some(template.to_owned());
    Service::start(ServerConfig { chat_template, ..ServerConfig::default() })
}

fn body_with(input: Value, rest: Value) -> Value {
    let mut body = json!({"input": input, "temperature": 0, "max_output_tokens": 100});
    for (name, value) in rest.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// The output is this text.
fn says(text: &str) -> Value {
    json!({"guided_choice": [text], "return_token_ids": true})
}

fn one_tool() -> Value {
    json!([{"type": "function", "name": "f", "parameters": {
        "type": "object", "properties": {"x": {"enum": ["a", "b"]}}, "required": ["x"],
        "additionalProperties": false, "x-guidance": {"whitespace_flexible": false},
    }}])
}

/// The events of a stream; each has its number.
async fn events(service: &Service, body: Value) -> Vec<Value> {
    let events = service.named_events(RESPONSES, body).await;
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    events
}

fn names(events: &[Value]) -> Vec<&str> {
    let names = events.iter().map(|event| event["type"].as_str().expect("a name"));
    let mut names: Vec<_> = names.map(|name| &name["response.".len()..]).collect();
    names.dedup();
    names
}

/// The prompt that the model was given, from a response with `return_token_ids`.
async fn prompt_of(service: &Service, response: &Value) -> String {
    let tokens = json!({"tokens": response["prompt_token_ids"]});
    let text = service.post("/detokenize", tokens).await;
    text["prompt"].as_str().expect("a text").to_owned()
}

fn text_of_output(response: &Value) -> &str {
    let items = response["output"].as_array().expect("items");
    items.last().expect("an item")["content"][0]["text"].as_str().expect("a text")
}

/// What is the same in two responses to the same request.
fn comparable(response: &Value) -> Value {
    let mut response = response.clone();
    for name in ["id", "created_at", "completed_at"] {
        response[name] = Value::Null;
    }
    // The second finds the first one's prompt in the cache.
    response["usage"]["input_tokens_details"] = Value::Null;
    for item in response["output"].as_array_mut().expect("items") {
        item["id"] = Value::Null;
        item["call_id"] = Value::Null;
    }
    response
}

#[tokio::test]
async fn a_response_has_openais_shape() {
    let service = service(TEMPLATE);
    let body =
        body_with(json!("hello"), json!({"guided_choice": ["Yes"], "instructions": "Be kind."}));
    let response = service.post(RESPONSES, body).await;
    let id = response["id"].as_str().expect("an id");
    assert!(id.starts_with("resp_"), "{id}");
    assert!(response["created_at"].as_u64() <= response["completed_at"].as_u64());
    let message = &response["output"][0];
    assert!(message["id"].as_str().expect("an id").starts_with("msg_"));
    let mut want = comparable(&response);
    want["output"] = json!([{
        "id": null, "call_id": null, "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Yes", "annotations": [], "logprobs": []}],
    }]);
    for (name, value) in [
        ("object", json!("response")),
        ("status", json!("completed")),
        ("error", Value::Null),
        ("incomplete_details", Value::Null),
        ("model", json!("tiny")),
        ("instructions", json!("Be kind.")),
        ("max_output_tokens", json!(100)),
        ("temperature", json!(0.0)),
        ("text", json!({"format": {"type": "text"}})),
        ("tools", json!([])),
        ("store", json!(true)),
    ] {
        want[name] = value;
    }
    assert_eq!(comparable(&response), want);
    let usage = &response["usage"];
    let total = usage["input_tokens"].as_u64().zip(usage["output_tokens"].as_u64());
    assert_eq!(usage["total_tokens"].as_u64(), total.map(|(input, output)| input + output));
}

#[tokio::test]
async fn whole_and_streamed_responses_agree() {
    let text = json!({"ignore_eos": true, "max_output_tokens": 12, "top_logprobs": 2,
        "return_token_ids": true});
    let call = json!({"tools": one_tool(), "tool_choice": "required"});
    let cut = json!({"tools": one_tool(), "tool_choice": "required", "max_output_tokens": 14});
    for (template, rest) in [
        (TEMPLATE, text),
        (HERMES, call),
        (HERMES, cut),
        (THINKING, says("<think>Hm.</think>Yes.")),
    ] {
        let service = service(template);
        let body = body_with(json!("hello"), rest);
        let whole = service.post(RESPONSES, body.clone()).await;
        let events = events(&service, body).await;
        let streamed = &events.last().expect("events")["response"];
        assert_eq!(comparable(streamed), comparable(&whole));
        let deltas = events.iter().filter_map(|event| event["delta"].as_str());
        let deltas: String = deltas.collect();
        let items = whole["output"].as_array().expect("items").iter();
        let texts = items
            .filter_map(|item| item["arguments"].as_str().or(item["content"][0]["text"].as_str()));
        assert_eq!(deltas, texts.collect::<String>());
        for stored in [&whole, streamed] {
            let id = stored["id"].as_str().expect("an id");
            assert_eq!(service.get(&format!("{RESPONSES}/{id}")).await, *stored);
        }
    }
}

#[tokio::test]
async fn logprobs_come_with_the_text() {
    let service = service(TEMPLATE);
    let include = json!({"include": ["message.output_text.logprobs"], "top_logprobs": 1,
        "ignore_eos": true, "max_output_tokens": 6});
    let response = service.post(RESPONSES, body_with(json!("hello"), include)).await;
    let logprobs = response["output"][0]["content"][0]["logprobs"].as_array().expect("a list");
    assert_eq!((logprobs.len(), &response["top_logprobs"]), (6, &json!(1)));
    assert_eq!(logprobs[0]["top_logprobs"][0]["token"], logprobs[0]["token"]);
}

#[tokio::test]
async fn events_of_a_text_come_in_order() {
    let service = service(TEMPLATE);
    let events = events(&service, body_with(json!("hello"), says("Yes."))).await;
    let want = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names(&events), want);
    assert_eq!(events[0]["response"]["status"], "in_progress");
    assert_eq!(events[2]["item"]["content"], json!([]));
}

#[tokio::test]
async fn events_of_a_call_come_in_order() {
    let service = service(HERMES);
    let rest = json!({"tools": one_tool(), "tool_choice": {"type": "function", "name": "f"}});
    let events = events(&service, body_with(json!("hello"), rest)).await;
    let want = [
        "created",
        "in_progress",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names(&events), want);
    let call = &events.last().expect("events")["response"]["output"][0];
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("f")));
    assert!(call["id"].as_str().expect("an id").starts_with("fc_"));
    let arguments = call["arguments"].as_str().expect("a text");
    let arguments: Value = serde_json::from_str(arguments).expect("JSON");
    assert!(arguments == json!({"x": "a"}) || arguments == json!({"x": "b"}), "{arguments}");
}

#[tokio::test]
async fn a_cut_response_is_incomplete() {
    let service = service(TEMPLATE);
    let mut rest = says("A text of many tokens.");
    rest["max_output_tokens"] = json!(4);
    let events = events(&service, body_with(json!("hello"), rest)).await;
    assert_eq!(names(&events).last(), Some(&"incomplete"));
    let response = &events.last().expect("events")["response"];
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(response["output"][0]["status"], "incomplete");
    let id = response["id"].as_str().expect("an id");
    assert_eq!(service.get(&format!("{RESPONSES}/{id}")).await, *response);
}

#[tokio::test]
async fn a_thinking_models_reasoning_is_an_item() {
    let service = service(THINKING);
    let body = body_with(json!("hello"), says("<think>Hm.</think>Yes."));
    let first = service.post(RESPONSES, body).await;
    let thought = &first["output"][0];
    assert!(thought["id"].as_str().expect("an id").starts_with("rs_"));
    assert_eq!((&thought["type"], &thought["summary"]), (&json!("reasoning"), &json!([])));
    assert_eq!(thought["content"], json!([{"type": "reasoning_text", "text": "Hm."}]));
    assert_eq!(text_of_output(&first), "Yes.");
    let details = &first["usage"]["output_tokens_details"];
    let tokens = details["reasoning_tokens"].as_u64().expect("a number");
    assert!(0 < tokens && Some(tokens) < first["usage"]["output_tokens"].as_u64(), "{tokens}");
    let mut rest = says("Yes.");
    rest["previous_response_id"] = first["id"].clone();
    let second = service.post(RESPONSES, body_with(json!("Why?"), rest)).await;
    assert_eq!(prompt_of(&service, &second).await, "u:hello;a:Hm.Yes.;u:Why?;");
}

#[tokio::test]
async fn a_conversation_goes_on_from_a_stored_response() {
    let service = service(TEMPLATE);
    let mut rest = says("One.");
    rest["instructions"] = json!("Count.");
    let first = service.post(RESPONSES, body_with(json!("hello"), rest)).await;
    assert_eq!(prompt_of(&service, &first).await, "s:Count.;u:hello;");
    let mut rest = says("Two.");
    rest["previous_response_id"] = first["id"].clone();
    let second = service.post(RESPONSES, body_with(json!("Go on."), rest)).await;
    assert_eq!(prompt_of(&service, &second).await, "u:hello;a:One.;u:Go on.;");
    assert_eq!(second["previous_response_id"], first["id"]);

    // The conversation does not need the first response any more.
    let path = |response: &Value| format!("{RESPONSES}/{}", response["id"].as_str().expect("id"));
    let deleted = Request::delete(path(&first)).body(Body::empty()).expect("a request");
    assert_eq!(service.send(deleted).await.status(), 200);
    let mut rest = says("Three.");
    rest["previous_response_id"] = second["id"].clone();
    let third = service.post(RESPONSES, body_with(json!("And?"), rest)).await;
    assert_eq!(prompt_of(&service, &third).await, "u:hello;a:One.;u:Go on.;a:Two.;u:And?;");

    let items = service.get(&format!("{}/input_items?order=asc&limit=2", path(&third))).await;
    assert_eq!((&items["object"], &items["has_more"]), (&json!("list"), &json!(true)));
    let texts: Vec<_> = (0..2).map(|index| &items["data"][index]["content"][0]["text"]).collect();
    assert_eq!(texts, ["hello", "One."]);
    assert_eq!(items["data"][1], first["output"][0]);
    let newest = service.get(&format!("{}/input_items", path(&third))).await;
    assert_eq!(newest["data"][0]["content"][0]["text"], "And?");
    assert_eq!((&newest["has_more"], &newest["last_id"]), (&json!(false), &items["first_id"]));
}

#[tokio::test]
async fn a_call_and_its_result_go_on() {
    let service = service(HERMES);
    let rest = json!({"tools": one_tool(), "tool_choice": "required",
        "parallel_tool_calls": false});
    let first = service.post(RESPONSES, body_with(json!("hello"), rest)).await;
    let call = &first["output"][0];
    let result =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "42"});
    let mut rest = says("It is 42.");
    rest["previous_response_id"] = first["id"].clone();
    let second = service.post(RESPONSES, body_with(json!([result]), rest)).await;
    assert_eq!(text_of_output(&second), "It is 42.");
    assert_eq!(prompt_of(&service, &second).await, "u:hello;a:;t:42;");

    // The same by sending all items again.
    let said = json!({"role": "user", "content": "hello"});
    let again = body_with(json!([said, call, result]), says("It is 42."));
    let again = service.post(RESPONSES, again).await;
    assert_eq!(again["prompt_token_ids"], second["prompt_token_ids"]);

    let lost = json!([{"type": "function_call_output", "call_id": "none", "output": "42"}]);
    let error = service.refused(RESPONSES, body_with(lost, json!({}))).await;
    assert_eq!(error["param"], "input[0].call_id");
}

#[tokio::test]
async fn a_stored_item_is_referred_to() {
    let service = service(TEMPLATE);
    let first = service.post(RESPONSES, body_with(json!("hello"), says("One."))).await;
    let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let input = json!([reference, {"role": "user", "content": "Why?"}]);
    let second = service.post(RESPONSES, body_with(input, says("So."))).await;
    assert_eq!(prompt_of(&service, &second).await, "a:One.;u:Why?;");
}

#[tokio::test]
async fn a_response_is_stored_until_it_is_deleted() {
    let service = service(TEMPLATE);
    let response = service.post(RESPONSES, body_with(json!("hello"), says("One."))).await;
    let path = format!("{RESPONSES}/{}", response["id"].as_str().expect("an id"));
    assert_eq!(service.get(&path).await, response);
    assert_eq!(service.get(&format!("{path}?stream=false&include[]=x")).await, response);
    for query in ["stream=true", "page=1"] {
        let refused = service.send(get_request(&format!("{path}?{query}"))).await;
        assert_eq!(refused.status(), 400, "{query}");
    }
    let delete = || Request::delete(&path).body(Body::empty()).expect("a request");
    let deleted = text_of(service.send(delete()).await).await;
    let want = json!({"id": response["id"], "object": "response", "deleted": true});
    assert_eq!(serde_json::from_str::<Value>(&deleted).expect("JSON"), want);
    for request in [delete(), get_request(&path), get_request(&format!("{path}/input_items"))] {
        let response = service.send(request).await;
        assert_eq!(response.status(), 404);
        let error = error_of(response).await;
        assert!(error["message"].as_str().expect("a text").contains("1,000 responses"), "{error}");
    }
    let rest = json!({"previous_response_id": response["id"]});
    let error = service.refused(RESPONSES, body_with(json!("hello"), rest)).await;
    assert_eq!(error["param"], "previous_response_id");
    assert_eq!(error["code"], "previous_response_not_found");
}

#[tokio::test]
async fn what_is_not_to_be_stored_is_not() {
    let service = service(TEMPLATE);
    let mut rest = says("One.");
    rest["store"] = json!(false);
    let response = service.post(RESPONSES, body_with(json!("hello"), rest)).await;
    assert_eq!(response["store"], false);
    let path = format!("{RESPONSES}/{}", response["id"].as_str().expect("an id"));
    assert_eq!(service.send(get_request(&path)).await.status(), 404);
}

#[tokio::test]
async fn a_cancelled_response_is_not_stored() {
    let service = service(TEMPLATE);
    let rest = json!({"stream": true, "ignore_eos": true});
    let body = body_with(json!("hello"), rest).to_string();
    let mut stream =
        service.send(json_request(RESPONSES, body)).await.into_body().into_data_stream();
    let first = stream.next().await.expect("an event").expect("a body in memory");
    let first = String::from_utf8(first.to_vec()).expect("text");
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
    let created: Value = serde_json::from_str(data).expect("JSON");
    drop(stream);
    let id = created["response"]["id"].as_str().expect("an id");
    let response = service.send(get_request(&format!("{RESPONSES}/{id}"))).await;
    assert_eq!(response.status(), 404);
}

#[tokio::test]
async fn a_response_is_visible_to_the_key_that_made_it() {
    let api_keys = vec!["anne".to_owned(), "bert".to_owned()];
    let chat_template = Some(TEMPLATE.to_owned());
    let config = ServerConfig { api_keys, chat_template, ..ServerConfig::default() };
    let service = Service::start(config);
    let with_key = |mut request: Request<Body>, key: &str| {
        let key = format!("Bearer {key}").parse().expect("a header");
        request.headers_mut().insert("authorization", key);
        request
    };
    let body = body_with(json!("hello"), says("One.")).to_string();
    let made = service.send(with_key(json_request(RESPONSES, body), "anne")).await;
    let made: Value = serde_json::from_str(&text_of(made).await).expect("JSON");
    let path = format!("{RESPONSES}/{}", made["id"].as_str().expect("an id"));
    let goes_on =
        body_with(json!("hello"), json!({"previous_response_id": made["id"]})).to_string();
    let refers = body_with(json!([{"id": made["output"][0]["id"]}]), json!({})).to_string();
    let delete = || Request::delete(&path).body(Body::empty()).expect("a request");
    for (request, status) in [
        (get_request(&path), 404),
        (delete(), 404),
        (json_request(RESPONSES, goes_on.clone()), 400),
        (json_request(RESPONSES, refers.clone()), 400),
    ] {
        assert_eq!(service.send(with_key(request, "bert")).await.status(), status);
    }
    for request in [
        get_request(&path),
        json_request(RESPONSES, goes_on),
        json_request(RESPONSES, refers),
        delete(),
    ] {
        assert_eq!(service.send(with_key(request, "anne")).await.status(), 200);
    }
}

#[tokio::test]
async fn a_text_has_the_requested_format() {
    let service = service(TEMPLATE);
    let schema = json!({
        "type": "object", "properties": {"x": {"enum": ["a", "b"]}}, "required": ["x"],
        "additionalProperties": false, "x-guidance": {"whitespace_flexible": false},
    });
    let format = json!({"type": "json_schema", "name": "n", "schema": schema, "strict": true});
    let rest = json!({"text": {"format": format}});
    let response = service.post(RESPONSES, body_with(json!("hello"), rest)).await;
    assert_eq!(response["text"]["format"], format);
    let value: Value = serde_json::from_str(text_of_output(&response)).expect("JSON");
    assert!(["a", "b"].contains(&value["x"].as_str().expect("a text")), "{value}");

    let format = json!({"type": "json_schema", "name": "n", "schema": {"type": "strin"}});
    let rest = json!({"text": {"format": format}});
    let error = service.refused(RESPONSES, body_with(json!("hello"), rest)).await;
    assert_eq!(error["param"], "text.format", "{error}");
}

#[tokio::test]
async fn complaints_name_what_the_client_sent() {
    let service = service(TEMPLATE);
    for (input, rest, param) in [
        (json!("hello"), json!({"max_output_tokens": 0}), "max_output_tokens"),
        (json!("hello"), json!({"max_output_tokens": 100_000}), "max_output_tokens"),
        (json!("hello"), json!({"temperature": -1}), "temperature"),
        (json!("hello ".repeat(2_000)), json!({}), "input"),
        (
            json!([{"role": "user", "content": [{"type": "input_file"}]}]),
            json!({}),
            "input[0].content[0].type",
        ),
    ] {
        let error = service.refused(RESPONSES, body_with(input, rest.clone())).await;
        assert_eq!(error["param"], param, "{rest}: {error}");
    }
    let template = "{{ raise_exception('no') }}";
    let refusing = Service::start(ServerConfig {
        chat_template: Some(template.to_owned()),
        ..ServerConfig::default()
    });
    let error = refusing.refused(RESPONSES, body_with(json!("hello"), json!({}))).await;
    assert_eq!(error["param"], "input", "{error}");
}
