//! A request to any route, answered by a tiny model.
//!
//! The first line is a method and a path, the rest the body.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use terrace_engine::text::LanguageModel;
use terrace_engine::{InferenceConfig, Precision};
use terrace_model::{Families, LoadedModel};
use terrace_server::{Limits, Server, ServerConfig};
use terrace_testkit::TinyModel;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

static SERVICE: LazyLock<Service> = LazyLock::new(Service::start);

struct Service {
    runtime: Runtime,
    routes: Router,
}

pub fn run(input: &[u8]) -> bool {
    let Some(request) = request(input) else { return false };
    SERVICE.runtime.block_on(SERVICE.respond(request))
}

fn request(input: &[u8]) -> Option<Request<Body>> {
    let line = input.iter().position(|&byte| byte == b'\n')?;
    let (line, body) = (str::from_utf8(&input[..line]).ok()?, input[line + 1..].to_vec());
    let (method, path) = line.split_once(' ')?;
    let request = Request::builder().method(method).uri(path);
    request.header("content-type", "application/json").body(Body::from(body)).ok()
}

impl Service {
    fn start() -> Self {
        let folder = TinyModel::new();
        let model = LoadedModel::open(&folder.path(), &Families::known()).expect("a model");
        // Outputs are short, so that time goes into requests.
        let config = InferenceConfig {
            dtype: Precision::Fp32,
            threads: Some(1),
            max_input_len: 64,
            max_output_len: 8,
            ..InferenceConfig::default()
        };
        let model = LanguageModel::start(model, &config, || {}).expect("an engine");
        let limits = Limits { body_bytes: 1 << 20, choices: 4, ..Limits::default() };
        let config = ServerConfig { limits, ..ServerConfig::default() };
        let server = Server::new(
            config,
            vec![Arc::new(model)],
            Vec::new(),
            Default::default(),
            Arc::default(),
        )
        .expect("a server");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, routes: server.routes() }
    }

    /// Whether the request was good. One that was not gets an error that says why, and nothing is
    /// the server's fault.
    async fn respond(&self, request: Request<Body>) -> bool {
        let is_head = request.method() == Method::HEAD;
        let response = self.routes.clone().oneshot(request).await.expect("a router cannot fail");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
        // The way to /docs/ has no body, and neither has any response to HEAD.
        if status.is_success() || status.is_redirection() {
            return true;
        }
        if is_head {
            return false;
        }
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{}", body.escape_ascii());
        let body: Value = serde_json::from_slice(&body).expect("an error is JSON");
        // Ollama's errors are a text, all others an object with one.
        let error = &body["error"];
        assert!(error.is_string() || error["message"].is_string(), "{status}: {body}");
        false
    }
}
