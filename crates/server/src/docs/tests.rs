//! The document says all that is there, and nothing that is not.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::fields::tests::TAKEN;
use crate::router::tests::{get_request, json_request, send, text_of};
use crate::server_config::ServerConfig;

pub async fn document() -> Value {
    let text = text_of(send(ServerConfig::default(), get_request("/openapi.json")).await).await;
    serde_json::from_str(&text).expect("JSON")
}

/// Every operation of the document: path, method, and what is said about it.
pub fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().expect("methods").iter();
            methods.map(move |(method, about)| (path.as_str(), method.as_str(), about))
        })
        .collect()
}

/// The schema itself, where another is named.
pub fn schema_of<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => {
            let path = path.trim_start_matches('#');
            schema_of(document, document.pointer(path).expect("a schema of that name"))
        }
        None => schema,
    }
}

/// The names of an object's fields, those of the parts it is made of included.
pub fn properties(document: &Value, schema: &Value) -> BTreeSet<String> {
    let schema = schema_of(document, schema);
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let own = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
    parts.flat_map(|part| properties(document, part)).chain(own.cloned()).collect()
}

/// Bodies that together make a route look for every field it knows.
pub fn full_bodies(path: &str) -> Vec<Value> {
    let chat = json!({"messages": [{"role": "user", "content": "a"}]});
    match path {
        "/v1/chat/completions" | "/chat" => vec![chat],
        "/v1/completions" | "/completion" => vec![json!({"prompt": "a"})],
        "/v1/embeddings" | "/v1/responses" => vec![json!({"input": "a"})],
        "/v1/messages" => vec![json!({"messages": chat["messages"], "max_tokens": 8})],
        "/v1/messages/count_tokens" => vec![chat],
        "/tokenize" => vec![json!({"prompt": "a"}), chat],
        "/detokenize" => vec![json!({"tokens": [1]})],
        "/v1/score" => vec![json!({"text_1": "a", "text_2": "b"})],
        "/v1/rerank" => vec![json!({"query": "a", "documents": ["b"]})],
        "/api/chat" => {
            let messages = &chat["messages"];
            vec![json!({"messages": messages, "options": {"num_predict": 2}})]
        }
        "/api/generate" => vec![json!({"prompt": "a", "options": {"num_predict": 2}})],
        "/api/embed" => vec![json!({"input": "a"})],
        "/api/embeddings" => vec![json!({"prompt": "a"})],
        "/api/show" => vec![json!({})],
        "/v1/kv_cache/handles" => {
            vec![json!({"prompt": "a"}), chat, json!({"response_id": "a"})]
        }
        "/v1/kv_cache/handles/{handle}" => vec![json!({"name": "a"})],
        "/v1/rank" => vec![json!({"user": "a", "items": [1], "candidates": [2]})],
        "/v1/retrieve" => vec![json!({"user": "a", "items": [1]})],
        "/v1/users/{user}/events" => vec![json!({"items": [1]})],
        "/v1/kv_cache/append_kvcache" => vec![json!({"user": "a", "items": [1]})],
        "/v1/kv_cache/get_user_kvdata_info"
        | "/v1/kv_cache/prepare_kv_cache"
        | "/v1/kv_cache/offload_kv_cache" => vec![json!({"users": ["a"]})],
        "/v1/kv_cache/evict_kv_cache" | "/v1/rank/reload" => vec![json!({})],
        "/v1/tables/{table}/lookup" | "/v1/tables/{table}/prefetch" => vec![json!({"keys": [1]})],
        "/v2/models/{model}/infer" => {
            let output = json!({"name": "OUTPUT0"});
            vec![json!({"id": "a", "inputs": [], "outputs": [output], "parameters": {}})]
        }
        "/v2/repository/index" => vec![json!({"ready": true})],
        "/v2/repository/models/{model}/load" | "/v2/repository/models/{model}/unload" => {
            vec![json!({"parameters": {}})]
        }
        other => panic!("{other} takes a body that this test does not know"),
    }
}

/// Whether the body names the model: in the inference protocol the path does.
pub fn names_its_model(path: &str) -> bool {
    !path.starts_with("/v2/")
}

/// Whether a request got past the reading of its body, to a model that is not there.
pub fn is_all_right(path: &str, status: StatusCode) -> bool {
    match names_its_model(path) {
        true => status == StatusCode::NOT_FOUND,
        // Without a model, with none to load, or of no model.
        false => [404, 501, 200].contains(&status.as_u16()),
    }
}

#[tokio::test]
async fn every_route_of_the_document_is_there_and_described() {
    let document = document().await;
    let mut ids = BTreeSet::new();
    for (path, method, about) in operations(&document) {
        let method = method.to_uppercase();
        let request = axum::http::Request::builder().method(method.as_str()).uri(path);
        let request = request.body(axum::body::Body::empty()).expect("a request");
        let response = text_of(send(ServerConfig::default(), request).await).await;
        assert!(!response.contains("lists the routes"), "{method} {path}: {response}");
        assert!(about["summary"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}");
        assert!(ids.insert(about["operationId"].to_string()), "{about} has the name of another");
    }
}

#[tokio::test]
async fn every_route_is_on_the_first_page() {
    let page = text_of(send(ServerConfig::default(), get_request("/")).await).await;
    for (path, ..) in operations(&document().await) {
        let path = path.split("/{").next().expect("a first part");
        assert!(page.contains(path), "{path}");
    }
}

#[tokio::test]
async fn exactly_the_documented_fields_are_taken() {
    let document = document().await;
    for (path, _, about) in operations(&document) {
        let body = &about["requestBody"];
        let schema = &body["content"]["application/json"]["schema"];
        if schema.is_null() {
            continue;
        }
        let described = properties(&document, schema);
        TAKEN.take();
        for mut body in full_bodies(path) {
            if names_its_model(path) {
                body["model"] = json!("none");
            }
            let response =
                send(ServerConfig::default(), json_request(path, body.to_string())).await;
            assert!(is_all_right(path, response.status()), "{path}: all but the model is right");
        }
        assert_eq!(TAKEN.take(), described, "{path}");
    }
}

/// A field says itself what it is, or its type does.
fn is_described(document: &Value, schema: &Value) -> bool {
    let by_type = schema["$ref"].as_str().is_some_and(|path| {
        let schema = document.pointer(path.trim_start_matches('#')).expect("a schema of that name");
        is_described(document, schema)
    });
    let options = schema["oneOf"].as_array().into_iter().flatten();
    by_type
        || schema["description"].is_string()
        || options.into_iter().any(|option| is_described(document, option))
}

#[tokio::test]
async fn every_field_is_described() {
    let document = document().await;
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        let own = schema["properties"].as_object();
        let parts = schema["allOf"].as_array().into_iter().flatten();
        let fields = parts.filter_map(|part| part["properties"].as_object()).chain(own).flatten();
        for (field, about) in fields {
            assert!(is_described(&document, about), "{name}.{field}");
        }
    }
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let page = send(ServerConfig::default(), get_request("/docs/")).await;
    assert_eq!(page.status(), 200);
    let page = text_of(page).await;
    let links = page.split('"').filter(|text| text.ends_with(".js") || text.ends_with(".css"));
    let links: Vec<_> = links.collect();
    assert!(links.len() >= 3, "{page}");
    for link in links {
        let file = link.strip_prefix("./").unwrap_or(link);
        let response = send(ServerConfig::default(), get_request(&format!("/docs/{file}"))).await;
        assert_eq!(response.status(), 200, "{link}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
}

#[tokio::test]
async fn a_file_the_page_has_not_is_an_unknown_path() {
    for path in ["/docs/none.js", "/docs/%ff"] {
        let response = send(ServerConfig::default(), get_request(path)).await;
        assert_eq!(response.status(), 404, "{path}");
        let error: Value = serde_json::from_str(&text_of(response).await).expect("JSON");
        let message = format!("nothing is at {path}; GET /docs lists the routes");
        assert_eq!(error["error"]["message"], message);
    }
}

#[tokio::test]
async fn the_page_is_open_without_a_key() {
    let config = ServerConfig { api_keys: vec!["k".to_owned()], ..ServerConfig::default() };
    for path in ["/docs/", "/docs/swagger-ui.css", "/openapi.json"] {
        assert_eq!(send(config.clone(), get_request(path)).await.status(), 200, "{path}");
    }
    assert_eq!(send(config, get_request("/docsabc")).await.status(), 401);
}
