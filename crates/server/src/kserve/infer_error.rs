//! Why an inference request, or one about models, is not answered.

use axum::http::StatusCode;
use tonic::Code;

use crate::api_error::ApiError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InferError {
    pub kind: InferErrorKind,
    /// What is wrong, with the numbers, and what to do.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferErrorKind {
    /// The request is wrong.
    InvalidArgument,
    /// No such model, version or region.
    NotFound,
    /// Not now: the model is not ready, or too many requests wait.
    Unavailable,
    /// The request's own time was over.
    Deadline,
    /// Known to the protocol, and not to this server.
    Unsupported,
    Internal,
}

impl InferError {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::of(InferErrorKind::InvalidArgument, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::of(InferErrorKind::NotFound, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::of(InferErrorKind::Unavailable, message)
    }

    pub fn deadline(message: impl Into<String>) -> Self {
        Self::of(InferErrorKind::Deadline, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::of(InferErrorKind::Unsupported, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::of(InferErrorKind::Internal, message)
    }

    fn of(kind: InferErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// What other parts of the service refuse.
impl From<&ApiError> for InferError {
    fn from(error: &ApiError) -> Self {
        let kind = match error.status() {
            StatusCode::NOT_FOUND => InferErrorKind::NotFound,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                InferErrorKind::Unavailable
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => InferErrorKind::Deadline,
            StatusCode::NOT_IMPLEMENTED => InferErrorKind::Unsupported,
            status if status.is_server_error() => InferErrorKind::Internal,
            _ => InferErrorKind::InvalidArgument,
        };
        Self::of(kind, error.message())
    }
}

impl InferErrorKind {
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Deadline => StatusCode::GATEWAY_TIMEOUT,
            Self::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub fn code(self) -> Code {
        match self {
            Self::InvalidArgument => Code::InvalidArgument,
            Self::NotFound => Code::NotFound,
            Self::Unavailable => Code::Unavailable,
            Self::Deadline => Code::DeadlineExceeded,
            Self::Unsupported => Code::Unimplemented,
            Self::Internal => Code::Internal,
        }
    }
}
