//! One log line and one count per request, when its response has ended.
//!
//! A streamed response outlives its handler, so the line is written when the last holder of the
//! [`RequestLog`] lets go: the handler, or the stream that still runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::app_state::AppState;
use crate::fields::IgnoredFields;
use crate::ids;
use crate::metrics::RequestMetrics;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_CHARS_MAX: usize = 128;

/// Names the fields that nobody knew, where they are ignored.
const IGNORED_FIELDS: HeaderName = HeaderName::from_static("x-terrace-ignored-fields");

/// What nginx writes for a client that left before its response.
const CLIENT_LEFT: u16 = 499;

/// Requested every few seconds by machines; not worth a line each.
const QUIET_ROUTES: [&str; 4] = ["/ping", "/health", "/engine_check", "/metrics"];

pub struct RequestLog {
    id: String,
    method: String,
    route: String,
    model: OnceLock<String>,
    pub started: Instant,
    pub metrics: Arc<RequestMetrics>,
    status: OnceLock<StatusCode>,
    first_token: OnceLock<Duration>,
    prompt_tokens: AtomicUsize,
    new_tokens: AtomicUsize,
    pub ignored_fields: Arc<IgnoredFields>,
}

/// The status that a response is logged and counted by, where its own says nothing: gRPC's is
/// always 200.
#[derive(Clone, Copy)]
pub struct LoggedStatus(pub StatusCode);

pub async fn log_request(
    State(state): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let log = Arc::new(RequestLog::begin(&request, Arc::clone(&state.metrics)));
    request.extensions_mut().insert(Arc::clone(&log));
    let mut response = next.run(request).await;
    let logged = response.extensions().get::<LoggedStatus>().map(|LoggedStatus(status)| *status);
    let status = logged.unwrap_or_else(|| response.status());
    log.status.set(status).expect("a request is answered once");
    let id = HeaderValue::from_str(&log.id).expect("the id was a header's value, or is made here");
    response.headers_mut().insert(REQUEST_ID, id);
    if let Some(names) = log.ignored_fields.header_value() {
        response.headers_mut().insert(IGNORED_FIELDS, names);
    }
    response
}

impl RequestLog {
    /// The caller's `x-request-id`, or one made here.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The model that answers; nothing before it is known.
    pub fn model(&self) -> &str {
        self.model.get().map_or("", String::as_str)
    }

    pub fn set_model(&self, name: &str) {
        self.model.get_or_init(|| name.to_owned());
    }

    pub fn add_prompt_tokens(&self, tokens: usize) {
        self.prompt_tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub fn add_new_tokens(&self, tokens: usize) {
        self.new_tokens.fetch_add(tokens, Ordering::Relaxed);
        self.metrics.count_tokens(tokens);
        if self.first_token.set(self.started.elapsed()).is_ok() {
            self.metrics.first_token(self.model(), self.started.elapsed());
        }
    }

    pub fn begin(request: &Request, metrics: Arc<RequestMetrics>) -> Self {
        let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let id = given.filter(|id| !id.is_empty() && id.len() <= REQUEST_ID_CHARS_MAX);
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        Self {
            id: id.map_or_else(|| ids::unique("req-"), str::to_owned),
            method: request.method().to_string(),
            // One name for all unknown paths: each label value is a time series.
            route: route.unwrap_or("unknown").to_owned(),
            model: OnceLock::new(),
            started: Instant::now(),
            metrics,
            status: OnceLock::new(),
            first_token: OnceLock::new(),
            prompt_tokens: AtomicUsize::new(0),
            new_tokens: AtomicUsize::new(0),
            ignored_fields: Arc::default(),
        }
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let status = self.status.get().map_or(CLIENT_LEFT, StatusCode::as_u16);
        let duration = self.started.elapsed();
        self.metrics.request_ended(&self.route, status, duration);
        let ms = |time: Duration| time.as_micros() as f64 / 1e3;
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    id = self.id,
                    method = self.method,
                    route = self.route,
                    model = self.model.get(),
                    status,
                    prompt_tokens = *self.prompt_tokens.get_mut(),
                    new_tokens = *self.new_tokens.get_mut(),
                    ttft_ms = self.first_token.get().map(|&time| ms(time)),
                    duration_ms = ms(duration),
                    "request"
                )
            };
        }
        match status {
            500.. => line!(warn),
            _ if QUIET_ROUTES.contains(&self.route.as_str()) => line!(debug),
            _ => line!(info),
        }
    }
}
