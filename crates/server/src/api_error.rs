//! The error that a client gets, in OpenAI's shape.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, body::Body};
use serde::Serialize;
use terrace_engine::{Error as EngineError, Failure, HandleError, TierError};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    status: StatusCode,
    kind: ErrorKind,
    code: Option<&'static str>,
    /// The request's field that is at fault.
    param: Option<String>,
    message: String,
}

pub type ApiResult<T> = Result<T, ApiError>;
/// What a route returns.
pub type Reply = ApiResult<Response>;
/// What a route returns whose response is one JSON object.
pub type JsonReply<T> = ApiResult<Json<T>>;

/// The code of [`ApiError::busy`].
const BUSY: &str = "server_busy";
/// The code of a refusal while all grammar compilers are busy.
const NO_COMPILER: &str = "grammar_compiler_busy";

/// OpenAI's `type` of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
enum ErrorKind {
    #[serde(rename = "invalid_request_error")]
    InvalidRequest,
    #[serde(rename = "rate_limit_error")]
    RateLimit,
    #[serde(rename = "server_error")]
    Server,
}

impl ApiError {
    /// A field that must be there is not.
    pub fn missing(path: &str) -> Self {
        Self::invalid(path, format!("{path} is missing"))
    }

    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        let error = Self::of(StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest, message);
        Self { param: Some(param.to_owned()), ..error }
    }

    /// The request is not what this service reads at all.
    pub fn bad_request(status: StatusCode, message: impl Into<String>) -> Self {
        Self::of(status, ErrorKind::InvalidRequest, message)
    }

    /// The body is not what this service reads at all.
    pub fn bad_body(status: StatusCode, message: impl Into<String>) -> Self {
        Self::of(status, ErrorKind::InvalidRequest, message)
    }

    pub fn late_body(limit: Duration) -> Self {
        let message = format!("the body did not come within {} s", limit.as_secs_f32());
        Self::of(StatusCode::REQUEST_TIMEOUT, ErrorKind::InvalidRequest, message)
    }

    pub fn bad_key() -> Self {
        let message =
            "give one of the server's keys as `Authorization: Bearer KEY` or `x-api-key: KEY`";
        let error = Self::of(StatusCode::UNAUTHORIZED, ErrorKind::InvalidRequest, message);
        Self { code: Some("invalid_api_key"), ..error }
    }

    pub fn unknown_model(name: &str, known: &str) -> Self {
        let message = format!("no model {name:?} here; known: {known}");
        let error = Self::of(StatusCode::NOT_FOUND, ErrorKind::InvalidRequest, message);
        Self { code: Some("model_not_found"), param: Some("model".to_owned()), ..error }
    }

    /// A handle of that name or id is not the caller's, or not there.
    pub fn unknown_handle(handle: &str) -> Self {
        let message = format!(
            "there is no handle {handle:?}; GET /v1/kv_cache/handles lists yours, POST makes one"
        );
        let error = Self::of(StatusCode::NOT_FOUND, ErrorKind::InvalidRequest, message);
        Self { code: Some("handle_not_found"), param: Some("handle".to_owned()), ..error }
    }

    pub fn unknown_table(table: &str, known: &str) -> Self {
        let message = format!("there is no table {table:?} here; known: {known}");
        let error = Self::of(StatusCode::NOT_FOUND, ErrorKind::InvalidRequest, message);
        Self { code: Some("table_not_found"), param: Some("table".to_owned()), ..error }
    }

    /// Rows cannot be brought where they are looked up first.
    pub fn no_hot_cache(table: &str) -> Self {
        let message = format!(
            "table {table:?} has no hot cache, so there is nothing to bring rows into; set \
             gpucache to true for its model"
        );
        let error = Self::of(StatusCode::CONFLICT, ErrorKind::InvalidRequest, message);
        Self { code: Some("no_hot_cache"), param: Some("table".to_owned()), ..error }
    }

    /// The history does not go on where the cache ends.
    pub fn other_history(message: impl Into<String>) -> Self {
        let error = Self::of(StatusCode::CONFLICT, ErrorKind::InvalidRequest, message);
        Self { code: Some("history_mismatch"), param: Some("start".to_owned()), ..error }
    }

    /// Too many requests wait.
    pub fn full(message: impl Into<String>) -> Self {
        let error = Self::of(StatusCode::TOO_MANY_REQUESTS, ErrorKind::RateLimit, message);
        Self { code: Some("queue_full"), ..error }
    }

    /// The request's own time was over before it could begin.
    pub fn deadline_passed(message: impl Into<String>) -> Self {
        let error = Self::of(StatusCode::GATEWAY_TIMEOUT, ErrorKind::Server, message);
        Self { code: Some("deadline_passed"), param: Some("timeout_ms".to_owned()), ..error }
    }

    /// The request is right, and what is there does not fit it.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        let error = Self::of(StatusCode::CONFLICT, ErrorKind::InvalidRequest, message);
        Self { code: Some(code), param: Some("handle".to_owned()), ..error }
    }

    /// There is no room on a disk or in memory for what is to be kept.
    fn no_storage(message: impl Into<String>) -> Self {
        let error = Self::of(StatusCode::INSUFFICIENT_STORAGE, ErrorKind::Server, message);
        Self { code: Some("insufficient_storage"), ..error }
    }

    /// Whose status says all that programs need.
    pub fn with_status(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status.is_server_error() {
            true => ErrorKind::Server,
            false => ErrorKind::InvalidRequest,
        };
        Self::of(status, kind, message)
    }

    pub fn unknown_route(status: StatusCode, message: String) -> Self {
        Self::of(status, ErrorKind::InvalidRequest, message)
    }

    pub fn timed_out(seconds: u64) -> Self {
        let message = format!("the request took longer than {seconds} s and was cancelled");
        let error = Self::of(StatusCode::GATEWAY_TIMEOUT, ErrorKind::Server, message);
        Self { code: Some("request_timeout"), ..error }
    }

    pub fn stopping() -> Self {
        let message = "the server is stopping; the request was cancelled";
        let error = Self::of(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Server, message);
        Self { code: Some("server_stopping"), ..error }
    }

    /// Others hold what the request needs; `waited` for it in vain.
    pub fn busy(waited: Duration) -> Self {
        let message = format!(
            "the server has too many large requests at once: no memory for this one came free \
             within {} s; send it again later",
            waited.as_secs_f32()
        );
        let error = Self::of(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Server, message);
        Self { code: Some(BUSY), ..error }
    }

    /// A level of a table that may have what the request needs does not answer.
    pub fn rows_unanswered(message: impl Into<String>) -> Self {
        let error = Self::of(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Server, message);
        Self { code: Some("rows_unanswered"), ..error }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::Server, message)
    }

    /// The same error, where the engine's `old` field has another name in the request.
    pub fn about(mut self, old: &str, new: &str) -> Self {
        if self.param.as_deref() == Some(old) {
            self.param = Some(new.to_owned());
            if let Some(rest) = self.message.strip_prefix(old) {
                self.message = format!("{new}{rest}");
            }
        }
        self
    }

    /// The same error under a name for programs.
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same error, where the request has other words for what the message speaks of.
    pub fn reworded(mut self, old: &str, new: &str) -> Self {
        self.message = self.message.replace(old, new);
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same error as an event of a stream whose status line has gone out already.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.shape()).expect("strings always serialise")
    }

    fn of(status: StatusCode, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { status, kind, code: None, param: None, message: message.into() }
    }

    fn shape(&self) -> ErrorShape<'_> {
        let Self { kind, code, param, message, .. } = self;
        ErrorShape {
            error: ErrorBody { message, r#type: *kind, param: param.as_deref(), code: *code },
        }
    }
}

/// What was found out while the output was made.
impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let (status, kind) = match failure {
            Failure::Step => return Self::internal("the step failed; the server's log says why"),
            Failure::BadGrammar(_) | Failure::Forbidden => {
                (StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest)
            }
            Failure::NoRoomForCache => (StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Server),
            Failure::BadHandle => (StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::Server),
            Failure::NoRoomForHandle => return Self::no_storage(failure.to_string()),
        };
        Self::of(status, kind, failure.to_string())
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::EmptyPrompt | EngineError::UnknownToken { .. } => {
                Self::invalid("prompt", message)
            }
            EngineError::PromptTooLong { .. }
            | EngineError::PromptTextTooLong { .. }
            | EngineError::ContextTooLong { .. }
            | EngineError::CacheTooShort { .. }
            | EngineError::NeverFits { .. } => {
                Self { code: Some("context_length_exceeded"), ..Self::invalid("prompt", message) }
            }
            EngineError::BadOption { option, .. } | EngineError::BadGrammar { option, .. } => {
                Self::invalid(option, message)
            }
            EngineError::Policy(_)
            | EngineError::ChunkTooLong { .. }
            | EngineError::SlotTooLarge { .. } => Self::invalid("kv_cache", message),
            EngineError::NoGuides { .. } => Self::invalid("response_format", message),
            EngineError::NoEmbeddings => Self::invalid("model", message),
            EngineError::QueueFull { .. } => Self {
                code: Some("queue_full"),
                ..Self::of(StatusCode::TOO_MANY_REQUESTS, ErrorKind::RateLimit, message)
            },
            EngineError::Stopped => Self {
                code: Some("engine_stopped"),
                ..Self::of(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Server, message)
            },
            EngineError::NoCompiler { .. } => Self {
                code: Some(NO_COMPILER),
                ..Self::of(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Server, message)
            },
            EngineError::NoSuchHandle { handle } => Self::unknown_handle(&handle),
            EngineError::OtherHandle { .. } => Self::conflict("handle_mismatch", message),
            EngineError::PinBudget { .. } => Self::conflict("pin_budget_spent", message),
            EngineError::NoDiskLevel { .. } => Self::conflict("no_disk_tier", message),
            EngineError::HandleLost { .. } => Self::conflict("handle_lost", message),
            EngineError::NoHostRoom { .. } => Self::no_storage(message),
            EngineError::Handle(error) => error.into(),
            // Not of the client's making: the step, the model's files, the server's own calls.
            _ => Self::internal(message),
        }
    }
}

impl From<HandleError> for ApiError {
    fn from(error: HandleError) -> Self {
        let message = error.to_string();
        match error {
            HandleError::Unknown(id) => Self::unknown_handle(&id.to_string()),
            HandleError::NameTaken { .. } => {
                Self { param: Some("name".to_owned()), ..Self::conflict("name_taken", message) }
            }
            HandleError::NoRoom { .. } | HandleError::Disk(TierError::Full(_)) => {
                Self::no_storage(message)
            }
            HandleError::Name(_) => Self::invalid("name", message),
            HandleError::Given(_) | HandleError::Source(_) => {
                Self::bad_body(StatusCode::BAD_REQUEST, message)
            }
            HandleError::Damaged { .. } => Self::internal(message).with_code("handle_damaged"),
            HandleError::Exists(_) | HandleError::Sink(_) | HandleError::Disk(_) => {
                Self::internal(message)
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response: Response<Body> = (self.status, Json(self.shape())).into_response();
        let advice = match self.status {
            StatusCode::TOO_MANY_REQUESTS => Some((header::RETRY_AFTER, "1")),
            StatusCode::SERVICE_UNAVAILABLE if self.code == Some(BUSY) => {
                Some((header::RETRY_AFTER, "5"))
            }
            StatusCode::SERVICE_UNAVAILABLE if self.code == Some(NO_COMPILER) => {
                Some((header::RETRY_AFTER, "1"))
            }
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
            // OpenAI's clients repeat a request after these; what was too long stays too long, and
            // what does not fit does not fit the next time.
            StatusCode::GATEWAY_TIMEOUT
            | StatusCode::CONFLICT
            | StatusCode::INSUFFICIENT_STORAGE => {
                Some((HeaderName::from_static("x-should-retry"), "false"))
            }
            _ => None,
        };
        if let Some((name, value)) = advice {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        // For APIs that word errors in another way.
        response.extensions_mut().insert(self);
        response
    }
}

/// Every error has this shape.
#[derive(Serialize, ToSchema)]
pub struct ErrorShape<'a> {
    error: ErrorBody<'a>,
}

/// Why the request failed.
#[derive(Serialize, ToSchema)]
struct ErrorBody<'a> {
    /// What is wrong, and what to do.
    message: &'a str,
    r#type: ErrorKind,
    /// The field at fault.
    param: Option<&'a str>,
    /// A name for programs, where there is one.
    code: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ApiError {
        /// That this field is at fault, and this is the message.
        #[track_caller]
        pub fn check_is(&self, param: &str, message: &str) {
            let found = (self.param.as_deref(), self.message.as_str());
            assert_eq!(found, (Some(param), message));
        }

        /// That the message begins so.
        #[track_caller]
        pub fn check_begins(&self, beginning: &str) {
            assert!(self.message.starts_with(beginning), "{}", self.message);
        }

        /// That this field is at fault, and the message contains `part`.
        #[track_caller]
        pub fn check_says(&self, param: &str, part: &str) {
            assert_eq!(self.param.as_deref(), Some(param), "{}", self.message);
            assert!(self.message.contains(part), "{}", self.message);
        }
    }

    #[track_caller]
    fn check(error: EngineError, status: u16, want: &str) {
        let error = ApiError::from(error);
        assert_eq!(error.status.as_u16(), status);
        assert_eq!(error.to_json(), want);
    }

    #[test]
    fn a_bad_option_names_its_field() {
        check(
            EngineError::BadOption {
                option: "temperature",
                value: "-1".to_owned(),
                rule: "must be at least 0".to_owned(),
            },
            400,
            concat!(
                r#"{"error":{"message":"temperature is -1: must be at least 0","#,
                r#""type":"invalid_request_error","param":"temperature","code":null}}"#
            ),
        );
    }

    #[test]
    fn a_long_prompt_says_the_numbers() {
        check(
            EngineError::PromptTooLong { tokens: 9000, limit: 8192 },
            400,
            concat!(
                r#"{"error":{"message":"the prompt has 9000 tokens, the limit is 8192 "#,
                r#"(max_input_len)","type":"invalid_request_error","param":"prompt","#,
                r#""code":"context_length_exceeded"}}"#
            ),
        );
    }

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let error = ApiError::from(EngineError::QueueFull { waiting: 8, limit: 8 });
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[test]
    fn a_stopped_engine_is_unavailable() {
        check(
            EngineError::Stopped,
            503,
            concat!(
                r#"{"error":{"message":"the engine has stopped","type":"server_error","#,
                r#""param":null,"code":"engine_stopped"}}"#
            ),
        );
    }
}
