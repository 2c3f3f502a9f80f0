//! Sessions: which requests have one, who sees it, and how it ends.

use super::generating::Service;
use super::*;

const KEYS: [&str; 2] = ["anne", "bert"];

fn service() -> Service {
    let api_keys = KEYS.map(str::to_owned).to_vec();
    Service::start(ServerConfig { api_keys, ..ServerConfig::default() })
}

async fn ask(service: &Service, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {key}"));
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let response = service.send(request.body(body).expect("a request")).await;
    let status = response.status().as_u16();
    (status, serde_json::from_str(&text_of(response).await).expect("JSON"))
}

async fn list(service: &Service, key: &str, query: &str) -> Value {
    let path = format!("/v1/sessions{query}");
    let (status, sessions) = ask(service, key, "GET", &path, &Value::Null).await;
    assert_eq!(status, 200, "{sessions}");
    sessions
}

fn ids(sessions: &Value) -> Vec<&str> {
    let sessions = sessions["data"].as_array().expect("a list").iter();
    sessions.map(|session| session["id"].as_str().expect("a text")).collect()
}

#[tokio::test]
async fn every_generating_route_has_sessions_of_its_caller() {
    let service = service();
    let text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.";
    let messages = json!([{"role": "user", "content": text}]);
    for (route, body) in [
        ("/v1/completions", json!({"prompt": text, "max_tokens": 2, "session_id": "a/b"})),
        (
            "/v1/chat/completions",
            json!({"messages": messages, "max_tokens": 2, "prompt_cache_key": "chat"}),
        ),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 2, "session_id": "claude"})),
        (
            "/v1/responses",
            json!({"input": text, "max_output_tokens": 2, "prompt_cache_key": "response",
                "prompt_cache_retention": "24h", "session_id": "response",
                "kv_cache": {"priority": 80}}),
        ),
    ] {
        let (status, response) = ask(&service, "anne", "POST", route, &body).await;
        assert_eq!(status, 200, "{route}: {response}");
        if route == "/v1/responses" {
            assert_eq!(response["prompt_cache_key"], "response");
        }
    }
    let sessions = list(&service, "anne", "").await;
    assert_eq!(ids(&sessions), ["a/b", "chat", "claude", "response"]);
    assert_eq!((&sessions["object"], &sessions["has_more"]), (&json!("list"), &json!(false)));
    let [first, last] = [0, 3].map(|index| &sessions["data"][index]);
    assert_eq!(first["object"], "kv_cache.session");
    let numbers = |session: &Value| (session["requests"].clone(), session["priority"].clone());
    assert_eq!((numbers(first), numbers(last)), ((json!(1), json!(60)), (json!(1), json!(80))));
    assert!(0 < first["tokens"].as_u64().expect("a number"));
    let lives = |session: &Value| {
        let at = |name: &str| session[name].as_u64().expect("unix seconds");
        assert!(at("created") <= at("last_used"));
        at("expires_at") - at("last_used")
    };
    assert!((599..=602).contains(&lives(first)) && (86_399..=86_402).contains(&lives(last)));

    assert_eq!(ids(&list(&service, "bert", "").await), [] as [&str; 0]);
    let page = list(&service, "anne", "?limit=2&after=a%2Fb").await;
    assert_eq!((ids(&page), &page["has_more"]), (vec!["chat", "claude"], &json!(true)));
    let metrics = service.send(with_key("/metrics")).await;
    let metrics = text_of(metrics).await;
    assert!(metrics.contains(r#"terrace_sessions{model="tiny"} 4"#), "{metrics}");
}

fn with_key(path: &str) -> Request<Body> {
    let request = Request::get(path).header("authorization", "Bearer anne");
    request.body(Body::empty()).expect("a request")
}

#[tokio::test]
async fn a_session_is_deleted_by_its_owner() {
    let service = service();
    let body = json!({"prompt": "a", "max_tokens": 1, "session_id": "a b/c"});
    for key in KEYS {
        let (status, _) = ask(&service, key, "POST", "/v1/completions", &body).await;
        assert_eq!(status, 200);
    }
    let path = "/v1/sessions/a%20b%2Fc";
    let (status, deleted) = ask(&service, "anne", "DELETE", path, &Value::Null).await;
    let want = json!({"id": "a b/c", "object": "kv_cache.session", "deleted": true});
    assert_eq!((status, deleted), (200, want));
    assert_eq!(ids(&list(&service, "anne", "").await), [] as [&str; 0]);
    assert_eq!(ids(&list(&service, "bert", "").await), ["a b/c"], "the id is bert's too");
    let (status, unknown) = ask(&service, "anne", "DELETE", path, &Value::Null).await;
    assert_eq!((status, &unknown["error"]["code"]), (404, &json!("session_not_found")));
    let message = unknown["error"]["message"].as_str().expect("a message");
    assert!(message.starts_with("no session \"a b/c\" of this key is here"), "{message}");
}

#[tokio::test]
async fn a_session_lives_as_long_as_the_server_says() {
    let config = ServerConfig { session_idle_seconds: 30, ..ServerConfig::default() };
    let service = Service::start(config);
    for (id, ttl, lives) in [("a", Value::Null, 30), ("b", json!(5), 5)] {
        let body = json!({"prompt": "a", "max_tokens": 1, "session_id": id,
            "kv_cache": {"ttl": ttl}});
        service.post("/v1/completions", body).await;
        let sessions = service.get("/v1/sessions").await;
        let session = sessions["data"].as_array().expect("a list").last().expect("a session");
        let at = |name: &str| session[name].as_u64().expect("unix seconds");
        assert!((lives - 1..=lives + 2).contains(&(at("expires_at") - at("created"))), "{session}");
    }
    let error = service.refused("/v1/completions", json!({"prompt": "a", "session_id": ""})).await;
    assert_eq!(error["param"], "session_id");
}
