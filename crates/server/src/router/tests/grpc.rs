//! The inference protocol over gRPC, with the tables of a parameter server behind it.

use axum::http::HeaderMap;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use tonic::Code;

use super::tables::{DEFAULT, DIM, Tables, row};
use super::*;
use crate::kserve::messages::model_infer_request::InferInputTensor;
use crate::kserve::messages::*;

const SERVICE: &str = "/inference.GRPCInferenceService";

/// Messages as gRPC frames them.
fn framed(messages: &[Vec<u8>]) -> Bytes {
    let mut frames = BytesMut::new();
    for message in messages {
        frames.put_u8(0);
        frames.put_u32(u32::try_from(message.len()).expect("short"));
        frames.put_slice(message);
    }
    frames.freeze()
}

fn unframed(mut frames: Bytes) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while frames.has_remaining() {
        assert_eq!(frames.get_u8(), 0, "it is not compressed");
        let length = frames.get_u32() as usize;
        messages.push(frames.split_to(length));
    }
    messages
}

/// What a call brings: messages, and the status behind them.
struct Called {
    messages: Vec<Bytes>,
    code: Code,
    message: String,
}

fn call_request(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(path).header("content-type", "application/grpc");
    request.header("te", "trailers").body(body.into()).expect("a request")
}

async fn send_call(tables: &Tables, request: Request<Body>) -> Called {
    let response = tables.send(request).await;
    assert_eq!(response.status(), 200, "gRPC has its own status");
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let headers = response.headers().clone();
    let body = response.into_body().collect().await.expect("a body in memory");
    let trailers = body.trailers().cloned();
    let status = |headers: &HeaderMap| {
        let text = |name: &str| headers.get(name).map(|it| it.to_str().expect("ASCII").to_owned());
        let code = text("grpc-status")?.parse::<i32>().expect("a number");
        Some((Code::from(code), text("grpc-message").unwrap_or_default().replace("%20", " ")))
    };
    let found = trailers.as_ref().and_then(status).or_else(|| status(&headers));
    let (code, message) = found.expect("each call ends with a status");
    Called { messages: unframed(body.to_bytes()), code, message }
}

async fn call<Reply: Message + Default>(
    tables: &Tables,
    method: &str,
    message: impl Message,
) -> Result<Reply, (Code, String)> {
    let body = framed(&[message.encode_to_vec()]);
    let called = send_call(tables, call_request(&format!("{SERVICE}/{method}"), body)).await;
    match (called.code, called.messages.as_slice()) {
        (Code::Ok, [message]) => Ok(Reply::decode(message.clone()).expect("its message")),
        (code, _) => Err((code, called.message)),
    }
}

fn keys_message(keys: &[i64], counts: &[i32]) -> ModelInferRequest {
    let input = |name: &str, datatype: &str, length: usize| InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: vec![length as i64],
        ..InferInputTensor::default()
    };
    let raw_keys: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let raw_counts: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    ModelInferRequest {
        model_name: "m".to_owned(),
        inputs: vec![input("KEYS", "INT64", keys.len()), input("NUMKEYS", "INT32", counts.len())],
        raw_input_contents: vec![raw_keys.into(), raw_counts.into()],
        ..ModelInferRequest::default()
    }
}

fn raw_rows(rows: &[[f32; DIM]]) -> Vec<u8> {
    rows.concat().iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[tokio::test]
async fn rows_come_as_bytes() {
    let tables = Tables::start();
    let request = ModelInferRequest {
        id: "x".to_owned(),
        model_version: "1".to_owned(),
        ..keys_message(&[7, 1000, 3], &[2, 1])
    };
    let found: ModelInferResponse = call(&tables, "ModelInfer", request).await.expect("rows");
    assert_eq!((found.id.as_str(), found.model_name.as_str()), ("x", "m"));
    assert_eq!(found.model_version, "1");
    assert_eq!(found.outputs[0].shape, [3 * DIM as i64]);
    let want = raw_rows(&[row(7), [DEFAULT; DIM], row(3)]);
    assert_eq!(found.raw_output_contents, [Bytes::from(want)]);
}

#[tokio::test]
async fn models_say_what_they_are() {
    let tables = Tables::start();
    let live: ServerLiveResponse =
        call(&tables, "ServerLive", ServerLiveRequest {}).await.expect("a reply");
    let ready: ServerReadyResponse =
        call(&tables, "ServerReady", ServerReadyRequest {}).await.expect("a reply");
    assert!(live.live && ready.ready);
    let named = |name: &str| (name.to_owned(), String::new());
    for (model, want) in [("m", true), ("none", false)] {
        let (name, version) = named(model);
        let request = ModelReadyRequest { name, version };
        let found: ModelReadyResponse =
            call(&tables, "ModelReady", request).await.expect("a reply");
        assert_eq!(found.ready, want, "{model}");
    }
    let server: ServerMetadataResponse =
        call(&tables, "ServerMetadata", ServerMetadataRequest {}).await.expect("a reply");
    assert_eq!(server.name, "terrace");
    let (name, version) = named("m");
    let request = ModelMetadataRequest { name, version };
    let found: ModelMetadataResponse =
        call(&tables, "ModelMetadata", request).await.expect("a reply");
    assert_eq!((found.platform.as_str(), found.inputs[0].datatype.as_str()), ("hps", "INT64"));
    let (name, version) = named("m");
    let request = ModelConfigRequest { name, version };
    let found: ModelConfigResponse = call(&tables, "ModelConfig", request).await.expect("a reply");
    assert_eq!(found.config.expect("a configuration").backend, "hps");
    let index: RepositoryIndexResponse =
        call(&tables, "RepositoryIndex", RepositoryIndexRequest::default()).await.expect("a reply");
    let rows: Vec<_> =
        index.models.iter().map(|it| (it.name.as_str(), it.state.as_str())).collect();
    assert_eq!(rows, [("c", "READY"), ("m", "READY"), ("n", "READY")]);
    let request = ModelStatisticsRequest::default();
    let statistics: ModelStatisticsResponse =
        call(&tables, "ModelStatistics", request).await.expect("a reply");
    assert_eq!(statistics.model_stats.len(), 3);
    let regions: SystemSharedMemoryStatusResponse =
        call(&tables, "SystemSharedMemoryStatus", SystemSharedMemoryStatusRequest::default())
            .await
            .expect("a reply");
    assert!(regions.regions.is_empty());
    let trace: TraceSettingResponse =
        call(&tables, "TraceSetting", TraceSettingRequest::default()).await.expect("a reply");
    assert_eq!(trace.settings["trace_level"].value, ["OFF"]);
    let log: LogSettingsResponse =
        call(&tables, "LogSettings", LogSettingsRequest::default()).await.expect("a reply");
    assert!(log.settings.contains_key("log_info"));
}

#[tokio::test]
async fn errors_are_statuses() {
    let tables = Tables::start();
    let check = async |method: &str, message: Vec<u8>, code: Code, part: &str| {
        let request = call_request(&format!("{SERVICE}/{method}"), framed(&[message]));
        let called = send_call(&tables, request).await;
        assert_eq!(called.code, code, "{method}: {}", called.message);
        assert!(called.message.contains(part), "{method}: {}", called.message);
    };
    let wrong = keys_message(&[1, 2], &[1, 0]).encode_to_vec();
    check("ModelInfer", wrong, Code::InvalidArgument, "NUMKEYS adds up to 1").await;
    let other = ModelInferRequest { model_name: "none".to_owned(), ..Default::default() };
    check("ModelInfer", other.encode_to_vec(), Code::NotFound, "there is no model").await;
    check("ModelInfer", vec![0xff; 9], Code::InvalidArgument, "is not the method's message").await;
    check("Nothing", Vec::new(), Code::Unimplemented, "nothing is at").await;
    let region = CudaSharedMemoryRegisterRequest::default().encode_to_vec();
    check("CudaSharedMemoryRegister", region, Code::Unimplemented, "CUDA shared memory").await;
    let model = |model_name: &str| model_name.to_owned();
    let load = RepositoryModelLoadRequest { model_name: model("m"), ..Default::default() };
    let load = load.encode_to_vec();
    check("RepositoryModelLoad", load, Code::Unimplemented, "without a model repository").await;
    let request = call_request("/grpc.health.v1.Health/Check", framed(&[Vec::new()]));
    assert_eq!(send_call(&tables, request).await.code, Code::Unimplemented);
    // Half a message.
    let half = framed(&[keys_message(&[1], &[1, 0]).encode_to_vec()]);
    let half = half.slice(..half.len() - 3);
    let called = send_call(&tables, call_request(&format!("{SERVICE}/ModelInfer"), half)).await;
    assert_ne!(called.code, Code::Ok);
}

#[tokio::test]
async fn keys_and_limits_hold_here_too() {
    let limits = Limits {
        body_bytes: 300,
        idle_time: std::time::Duration::from_millis(50),
        ..Limits::default()
    };
    let api_keys = vec!["k".to_owned()];
    let tables = Tables::with(ServerConfig { api_keys, limits, ..ServerConfig::default() });
    let live: Result<ServerLiveResponse, _> =
        call(&tables, "ServerLive", ServerLiveRequest {}).await;
    assert!(live.is_ok(), "{live:?}");
    let path = format!("{SERVICE}/ModelInfer");
    let body = framed(&[keys_message(&[1], &[1, 0]).encode_to_vec()]);
    let called = send_call(&tables, call_request(&path, body.clone())).await;
    assert_eq!(called.code, Code::Unauthenticated);
    let with_key = |body: Body| {
        let mut request = call_request(&path, body);
        let key = axum::http::HeaderValue::from_static("Bearer k");
        request.headers_mut().insert("authorization", key);
        request
    };
    let called = send_call(&tables, with_key(body.into())).await;
    assert_eq!(called.code, Code::Ok, "{}", called.message);
    let long = framed(&[keys_message(&[1; 100], &[100, 0]).encode_to_vec()]);
    let called = send_call(&tables, with_key(long.into())).await;
    assert_eq!(called.code, Code::ResourceExhausted, "{}", called.message);
    assert!(called.message.contains("longer than 300 bytes"), "{}", called.message);
    let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
    let called = send_call(&tables, with_key(Body::from_stream(never))).await;
    assert_eq!(called.code, Code::DeadlineExceeded, "{}", called.message);
    let metrics = with_key(Body::empty());
    let (mut parts, body) = metrics.into_parts();
    parts.method = axum::http::Method::GET;
    parts.uri = "/metrics".parse().expect("a path");
    parts.headers.remove("content-type");
    let metrics = text_of(tables.send(Request::from_parts(parts, body)).await).await;
    let route = "/inference.GRPCInferenceService/ModelInfer";
    for (status, count) in [(401, 1), (413, 1), (504, 1), (200, 1)] {
        let line =
            format!("terrace_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        assert!(metrics.lines().any(|found| found == line), "{line} not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_stream_answers_each_request_in_turn() {
    let tables = Tables::start();
    let messages = || {
        let with_id = |id: &str, message: ModelInferRequest| {
            ModelInferRequest { id: id.to_owned(), ..message }.encode_to_vec()
        };
        framed(&[
            with_id("a", keys_message(&[7], &[1, 0])),
            with_id("b", keys_message(&[7], &[0, 0])),
            with_id("c", keys_message(&[3], &[0, 1])),
        ])
    };
    let path = format!("{SERVICE}/ModelStreamInfer");
    let called = send_call(&tables, call_request(&path, messages())).await;
    assert_eq!(called.code, Code::Ok, "{}", called.message);
    let read =
        |message: &Bytes| ModelStreamInferResponse::decode(message.clone()).expect("a response");
    let found: Vec<_> = called.messages.iter().map(read).collect();
    let ids = found.iter().map(|it| it.infer_response.as_ref().expect("it is there").id.as_str());
    assert_eq!(ids.collect::<Vec<_>>(), ["a", "b", "c"]);
    let errors: Vec<_> = found.iter().map(|it| it.error_message.is_empty()).collect();
    assert_eq!(errors, [true, false, true]);
    assert!(found[1].error_message.contains("NUMKEYS adds up to 0"));
    let last = found[2].infer_response.as_ref().expect("it is there");
    assert_eq!(last.raw_output_contents, [Bytes::from(raw_rows(&[row(3)]))]);
    assert!(last.parameters.contains_key("triton_final_response"));
    let mut request = call_request(&path, messages());
    let flag = axum::http::HeaderValue::from_static("true");
    request.headers_mut().insert("triton_grpc_error", flag);
    let called = send_call(&tables, request).await;
    assert_eq!((called.code, called.messages.len()), (Code::InvalidArgument, 1));
}

#[tokio::test]
async fn requests_may_be_compressed() {
    let tables = Tables::start();
    let message = keys_message(&[7; 50], &[50, 0]).encode_to_vec();
    let compressed = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&message).expect("into memory");
        encoder.finish().expect("into memory")
    };
    let mut frame = BytesMut::new();
    frame.put_u8(1);
    frame.put_u32(u32::try_from(compressed.len()).expect("short"));
    frame.put_slice(&compressed);
    let mut request = call_request(&format!("{SERVICE}/ModelInfer"), frame.freeze());
    let gzip = axum::http::HeaderValue::from_static("gzip");
    request.headers_mut().insert("grpc-encoding", gzip);
    let called = send_call(&tables, request).await;
    assert_eq!(called.code, Code::Ok, "{}", called.message);
    let found = ModelInferResponse::decode(called.messages[0].clone()).expect("a response");
    assert_eq!(found.raw_output_contents[0], raw_rows(&[row(7); 50]));
}
