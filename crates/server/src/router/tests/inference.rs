//! The inference protocol over HTTP, with the tables of a parameter server behind it.

use std::io::Write;

use axum::http::Method;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::tables::{DEFAULT, DIM, Tables, row};
use super::*;

const INFER: &str = "/v2/models/m/infer";

/// Two tables of model `m`: `plain` and `both`.
fn keys_json(keys: &[i64], counts: &[i32]) -> Value {
    json!([
        {"name": "KEYS", "shape": [1, keys.len()], "datatype": "INT64", "data": keys},
        {"name": "NUMKEYS", "shape": [counts.len()], "datatype": "INT32", "data": counts},
    ])
}

fn numbers(rows: &[[f32; DIM]]) -> Vec<f32> {
    rows.concat()
}

/// A request as Triton's clients send it: without a content type.
fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).body(body.into()).expect("a request")
}

async fn json_of(response: Response) -> Value {
    let text = text_of(response).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The status and the text of an error.
async fn refusal(tables: &Tables, request: Request<Body>) -> (u16, String) {
    let response = tables.send(request).await;
    let (status, body) = (response.status().as_u16(), json_of(response).await);
    assert_eq!(body.as_object().map(|it| it.len()), Some(1), "{body}");
    (status, body["error"].as_str().expect("a text").to_owned())
}

#[tokio::test]
async fn the_server_and_its_models_say_what_they_are() {
    let tables = Tables::start();
    let server: Value = serde_json::from_str(&tables.get("/v2").await).expect("JSON");
    assert_eq!(server["name"], "terrace");
    let extensions = server["extensions"].as_array().expect("a list");
    assert!(extensions.contains(&json!("binary_tensor_data")));
    for path in [
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/m/ready",
        "/v2/models/m/versions/1/ready",
    ] {
        assert_eq!(tables.get(path).await, "", "{path}");
    }
    for path in ["/v2/models/none/ready", "/v2/models/m/versions/2/ready"] {
        assert_eq!(tables.send(get_request(path)).await.status(), 400, "{path}");
    }
    for path in ["/v2/models/m", "/v2/models/m/versions/1"] {
        let model: Value = serde_json::from_str(&tables.get(path).await).expect("JSON");
        let want = json!({
            "name": "m", "versions": ["1"], "platform": "hps",
            "inputs": [{"name": "KEYS", "datatype": "INT64", "shape": [-1]},
                {"name": "NUMKEYS", "datatype": "INT32", "shape": [-1]}],
            "outputs": [{"name": "OUTPUT0", "datatype": "FP32", "shape": [-1]}],
        });
        assert_eq!(model, want);
    }
    let config: Value =
        serde_json::from_str(&tables.get("/v2/models/m/config").await).expect("JSON");
    assert_eq!((&config["name"], &config["backend"]), (&json!("m"), &json!("hps")));
    assert_eq!(config["input"][0]["data_type"], "TYPE_INT64");
    assert_eq!(config["max_batch_size"], 0);
}

#[tokio::test]
async fn rows_come_table_by_table() {
    let tables = Tables::start();
    let want = numbers(&[row(7), [DEFAULT; DIM], row(3)]);
    let body = json!({"id": "x", "inputs": keys_json(&[7, 1000, 3], &[2, 1])});
    for path in [INFER, "/v2/models/m/versions/1/infer"] {
        let response = tables.send(post(path, body.to_string())).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/json");
        let found = json_of(response).await;
        let output = json!({"name": "OUTPUT0", "datatype": "FP32", "shape": [3 * DIM],
            "data": want});
        let want = json!({"id": "x", "model_name": "m", "model_version": "1", "outputs": [output]});
        assert_eq!(found, want);
    }
    let none = json!({"inputs": keys_json(&[], &[0, 0])});
    let found = json_of(tables.send(post(INFER, none.to_string())).await).await;
    assert_eq!(found["outputs"][0]["data"], json!([]));
    assert_eq!(found.get("id"), None);
}

/// A body with the keys behind its JSON, and where the JSON ends.
fn binary_body(keys: &[i64], counts: &[i32], rest: Value) -> (Vec<u8>, usize) {
    let keys: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let counts: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    let mut json = rest;
    json["inputs"] = json!([
        {"name": "NUMKEYS", "shape": [counts.len() / 4], "datatype": "INT32",
            "parameters": {"binary_data_size": counts.len()}},
        {"name": "KEYS", "shape": [keys.len() / 8], "datatype": "INT64",
            "parameters": {"binary_data_size": keys.len()}},
    ]);
    let json = json.to_string();
    ([json.as_bytes(), &counts, &keys].concat(), json.len())
}

fn binary_request(body: Vec<u8>, json_bytes: usize) -> Request<Body> {
    let request = Request::post(INFER).header("Inference-Header-Content-Length", json_bytes);
    request.body(Body::from(body)).expect("a request")
}

async fn bytes_of(response: Response) -> Vec<u8> {
    response.into_body().collect().await.expect("a body in memory").to_bytes().to_vec()
}

#[tokio::test]
async fn tensors_may_be_bytes_behind_the_json() {
    let tables = Tables::start();
    let all = json!({"parameters": {"binary_data_output": true}});
    let one = json!({"outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": true}}]});
    for rest in [all, one] {
        let (body, json_bytes) = binary_body(&[7, 3], &[1, 1], rest);
        let response = tables.send(binary_request(body, json_bytes)).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/octet-stream");
        let json_bytes = response.headers()["inference-header-content-length"].to_str();
        let json_bytes: usize = json_bytes.expect("ASCII").parse().expect("a number");
        let body = bytes_of(response).await;
        let (json, binary) = body.split_at(json_bytes);
        let json: Value = serde_json::from_slice(json).expect("JSON");
        assert_eq!(json["outputs"][0]["parameters"], json!({"binary_data_size": 8 * DIM}));
        let want = numbers(&[row(7), row(3)]);
        let want: Vec<u8> = want.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(binary, want);
    }
}

#[tokio::test]
async fn bodies_may_be_compressed_both_ways() {
    let tables = Tables::start();
    let keys: Vec<i64> = (0..100).collect();
    let (body, json_bytes) = binary_body(&keys, &[100, 0], json!({}));
    let gzip = {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&body).expect("into memory");
        encoder.finish().expect("into memory")
    };
    let deflate = {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&body).expect("into memory");
        encoder.finish().expect("into memory")
    };
    let plain = bytes_of(tables.send(binary_request(body, json_bytes)).await).await;
    for (encoding, body) in [("gzip", gzip), ("deflate", deflate)] {
        let mut request = binary_request(body, json_bytes);
        let value = axum::http::HeaderValue::from_static(encoding);
        request.headers_mut().insert("content-encoding", value.clone());
        request.headers_mut().insert("accept-encoding", value);
        let response = tables.send(request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-encoding"], encoding);
        let compressed = bytes_of(response).await;
        let found = match encoding {
            "gzip" => read_all(flate2::read::GzDecoder::new(&compressed[..])),
            _ => read_all(flate2::read::ZlibDecoder::new(&compressed[..])),
        };
        assert_eq!(found, plain);
    }
}

fn read_all(mut reader: impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("it is whole");
    bytes
}

#[tokio::test]
async fn classes_are_texts() {
    let tables = Tables::start();
    let body = json!({"inputs": keys_json(&[7], &[1, 0]),
        "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 2}}]});
    let found = json_of(tables.send(post(INFER, body.to_string())).await).await;
    let output = &found["outputs"][0];
    assert_eq!((&output["datatype"], &output["shape"]), (&json!("BYTES"), &json!([2])));
    assert_eq!(output["data"], json!(["7.375000:3", "7.250000:2"]));
}

#[tokio::test]
async fn wrong_requests_are_refused_in_the_protocols_shape() {
    let tables = Tables::start();
    let with = |inputs: Value| json!({"inputs": inputs}).to_string();
    let mut floats = keys_json(&[1], &[1, 0]);
    floats[0]["datatype"] = json!("FP32");
    let mut further = keys_json(&[1], &[1, 0]);
    further[0]["name"] = json!("KEYZ");
    for (body, status, part) in [
        (with(keys_json(&[1, 2], &[1, 0])), 400, "KEYS has 2 keys, and NUMKEYS adds up to 1"),
        (with(keys_json(&[1], &[1])), 400, "NUMKEYS has 1 numbers, and the model 2 tables"),
        (with(keys_json(&[1], &[2, -1])), 400, "no table has fewer than 0 keys"),
        (with(floats), 400, "\"KEYS\" has the datatype FP32; the model takes INT64 or UINT32"),
        (with(further), 400, "the input \"KEYS\" is missing"),
        (with(json!([])), 400, "the input \"KEYS\" is missing"),
        ("{".to_owned(), 400, "the request is wrong: EOF"),
        (String::new(), 400, "the request is wrong: EOF"),
        (json!({"inputs": keys_json(&[1], &[1, 0]), "x": 1}).to_string(), 400, "field \"x\""),
        (
            json!({"inputs": keys_json(&[1], &[1, 0]), "parameters": {"k": 1}}).to_string(),
            400,
            "the model has no parameter \"k\"",
        ),
        (
            json!({"inputs": keys_json(&[1], &[1, 0]), "outputs": [{"name": "P"}]}).to_string(),
            400,
            "the model has no output \"P\"",
        ),
        (
            json!({"inputs": keys_json(&[1], &[1, 0]), "parameters": {"sequence_id": 1}})
                .to_string(),
            501,
            "no models of sequences",
        ),
    ] {
        let (found, error) = refusal(&tables, post(INFER, body.clone())).await;
        assert_eq!(found, status, "{body}: {error}");
        assert!(error.contains(part), "{body}: {error}");
    }
    for (request, status, part) in [
        (post("/v2/models/none/infer", "{\"inputs\":[]}"), 404, "there is no model \"none\" here"),
        (post("/v2/models/m/versions/7/infer", "{\"inputs\":[]}"), 404, "no version 7"),
        (post("/v2/models/m/versions/x/infer", "{\"inputs\":[]}"), 400, "is no whole number"),
        (post("/v2/models/%ff/infer", "{}"), 400, "not UTF-8"),
        (get_request(INFER), 405, "does not take GET"),
        (get_request("/v2/nowhere"), 404, "nothing is at /v2/nowhere"),
        (get_request("/v2/models/none/config"), 404, "there is no model \"none\""),
        (get_request("/v2/models/none/stats"), 404, "there is no model \"none\""),
        (post("/v2/repository/models/m/load", ""), 501, "without a model repository"),
        (post("/v2/repository/models/m/unload", ""), 400, "cannot be unloaded"),
        (post("/v2/repository/index", "{\"redy\": 1}"), 400, "unknown field \"redy\""),
        (post("/v2/repository/index", "[]"), 400, "must be a JSON object"),
    ] {
        let path = request.uri().clone();
        let (found, error) = refusal(&tables, request).await;
        assert_eq!(found, status, "{path}: {error}");
        assert!(error.contains(part), "{path}: {error}");
    }
}

#[tokio::test]
async fn framing_that_lies_is_refused() {
    let tables = Tables::start();
    let (body, json_bytes) = binary_body(&[7, 3], &[1, 1], json!({}));
    for (body, header, part) in [
        (body.clone(), (body.len() + 1).to_string(), "and the body has"),
        (body[..body.len() - 1].to_vec(), json_bytes.to_string(), "bytes are left"),
        ([&body[..], &[0]].concat(), json_bytes.to_string(), "belong to no input"),
        (body.clone(), (json_bytes - 1).to_string(), "the request is wrong"),
        (body.clone(), "-1".to_owned(), "it must be a whole number"),
        (body.clone(), "x".to_owned(), "it must be a whole number"),
        (body, u128::MAX.to_string(), "it must be a whole number"),
    ] {
        let request = Request::post(INFER).header("Inference-Header-Content-Length", &header);
        let request = request.body(Body::from(body)).expect("a request");
        let (status, error) = refusal(&tables, request).await;
        assert_eq!(status, 400, "{error}");
        assert!(error.contains(part), "{header}: {error}");
    }
}

#[tokio::test]
async fn statistics_and_metrics_count_requests() {
    let tables = Tables::start();
    let good = json!({"inputs": keys_json(&[1, 2], &[1, 1])}).to_string();
    let bad = json!({"inputs": keys_json(&[1, 2], &[1, 0])}).to_string();
    for body in [&good, &good, &bad] {
        drop(tables.send(post(INFER, body.clone())).await);
    }
    let all: Value = serde_json::from_str(&tables.get("/v2/models/stats").await).expect("JSON");
    assert_eq!(all["model_stats"].as_array().map(Vec::len), Some(3));
    let stats: Value =
        serde_json::from_str(&tables.get("/v2/models/m/versions/1/stats").await).expect("JSON");
    let model = &stats["model_stats"][0];
    assert_eq!((&model["name"], &model["version"]), (&json!("m"), &json!("1")));
    assert_eq!((&model["inference_count"], &model["execution_count"]), (&json!(2), &json!(2)));
    assert!(model["last_inference"].as_u64().is_some_and(|ms| ms > 1_600_000_000_000));
    let requests = &model["inference_stats"];
    assert_eq!((&requests["success"]["count"], &requests["fail"]["count"]), (&json!(2), &json!(1)));
    assert_eq!(requests["compute_infer"]["count"], 2);
    assert_eq!(requests["cache_hit"], json!({"count": 0, "ns": 0}));
    assert_eq!(model["batch_stats"][0]["batch_size"], 1);
    assert_eq!(model["batch_stats"][0]["compute_infer"]["count"], 2);
    let metrics = tables.get("/metrics").await;
    for line in [
        r#"nv_inference_request_success{model="m",version="1"} 2"#,
        r#"nv_inference_request_failure{model="m",version="1"} 1"#,
        r#"nv_inference_count{model="m",version="1"} 2"#,
        r#"nv_inference_exec_count{model="m",version="1"} 2"#,
        r#"nv_inference_count{model="n",version="1"} 0"#,
        r#"terrace_requests_total{route="/v2/models/{model}/infer",status="200"} 2"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} not in\n{metrics}");
    }
}

#[tokio::test]
async fn the_index_lists_what_is_served() {
    let tables = Tables::start();
    let row = |name: &str| json!({"name": name, "version": "1", "state": "READY"});
    let want = json!([row("c"), row("m"), row("n")]);
    for body in ["", "{}", r#"{"ready": true}"#, r#"{"repository_name": "r"}"#] {
        let found = json_of(tables.send(post("/v2/repository/index", body)).await).await;
        assert_eq!(found, want, "{body}");
    }
}

#[tokio::test]
async fn shared_memory_and_settings_are_refused_by_name() {
    let tables = Tables::start();
    for kind in ["systemsharedmemory", "cudasharedmemory"] {
        assert_eq!(tables.get(&format!("/v2/{kind}/status")).await, "[]");
        let region = |what: &str| format!("/v2/{kind}/region/r/{what}");
        let (status, error) = refusal(&tables, get_request(&region("status"))).await;
        assert!(status == 404 && error.contains("region \"r\""), "{error}");
        let (status, error) = refusal(&tables, post(&region("register"), "{}")).await;
        assert!(status == 501 && error.contains("shared memory is not supported"), "{error}");
        for path in [region("unregister"), format!("/v2/{kind}/unregister")] {
            assert_eq!(tables.send(post(&path, "")).await.status(), 200, "{path}");
        }
    }
    for (path, name) in [
        ("/v2/trace/setting", "trace_level"),
        ("/v2/models/m/trace/setting", "trace_level"),
        ("/v2/logging", "log_info"),
    ] {
        let settings: Value = serde_json::from_str(&tables.get(path).await).expect("JSON");
        assert!(settings.get(name).is_some(), "{path}: {settings}");
        assert_eq!(json_of(tables.send(post(path, "{}")).await).await, settings);
        let (status, error) = refusal(&tables, post(path, json!({name: "x"}).to_string())).await;
        assert!(status == 501 && error.contains(name), "{error}");
        assert_eq!(refusal(&tables, post(path, "[1]")).await.0, 400);
    }
}

#[tokio::test]
async fn keys_and_limits_hold_here_too() {
    let limits = Limits { body_bytes: 300, ..Limits::default() };
    let api_keys = vec!["k".to_owned()];
    let tables = Tables::with(ServerConfig { api_keys, limits, ..ServerConfig::default() });
    for path in ["/v2/health/live", "/v2/health/ready"] {
        assert_eq!(tables.send(get_request(path)).await.status(), 200, "{path}");
    }
    let (status, error) = refusal(&tables, post(INFER, "{}")).await;
    assert!(status == 401 && error.contains("Authorization: Bearer KEY"), "{error}");
    let with_key = |method: Method, body: String| {
        let request = Request::builder().method(method).uri(INFER);
        let request = request.header("authorization", "Bearer k").body(Body::from(body));
        request.expect("a request")
    };
    let body = json!({"inputs": keys_json(&[1], &[1, 0])}).to_string();
    assert_eq!(tables.send(with_key(Method::POST, body)).await.status(), 200);
    let long = json!({"inputs": keys_json(&[1; 200], &[200, 0])}).to_string();
    let (status, error) = refusal(&tables, with_key(Method::POST, long)).await;
    assert!(status == 413 && error.contains("longer than 300 bytes"), "{error}");
}
