//! Errors as gRPC's statuses.

use axum::http::StatusCode;
use tonic::{Code, Status};

use crate::api_error::ApiError;
use crate::kserve::infer_error::InferError;

/// A status is a header, and clients take headers of some KiB.
const MESSAGE_CHARS_MOST: usize = 1024;

impl From<InferError> for Status {
    fn from(error: InferError) -> Self {
        status(error.kind.code(), &error.message)
    }
}

/// What was refused on the way to a method: the key, the path, the body.
pub fn refusal(error: &ApiError) -> Status {
    let code = match error.status() {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        // No such method, or not called as one is.
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Code::Unimplemented,
        StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::URI_TOO_LONG
        | StatusCode::INSUFFICIENT_STORAGE => Code::ResourceExhausted,
        _ => InferError::from(error).kind.code(),
    };
    status(code, error.message())
}

pub fn status(code: Code, message: &str) -> Status {
    let message = match message.char_indices().nth(MESSAGE_CHARS_MOST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    };
    Status::new(code, message)
}

/// The status that HTTP would have: for the log, and for what is counted.
pub fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::PAYLOAD_TOO_LARGE,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled => StatusCode::REQUEST_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_refusal_has_its_code() {
        let route = ApiError::unknown_route(StatusCode::NOT_FOUND, "nothing".to_owned());
        let large = ApiError::bad_body(StatusCode::PAYLOAD_TOO_LARGE, "long");
        for (error, code) in [
            (ApiError::bad_key(), Code::Unauthenticated),
            (route, Code::Unimplemented),
            (large, Code::ResourceExhausted),
            (ApiError::late_body(Duration::from_secs(1)), Code::DeadlineExceeded),
            (ApiError::stopping(), Code::Unavailable),
            (ApiError::full("many"), Code::Unavailable),
            (ApiError::internal("a fault"), Code::Internal),
            (ApiError::invalid("n", "n is 0"), Code::InvalidArgument),
        ] {
            let status = refusal(&error);
            assert_eq!((status.code(), status.message()), (code, error.message()));
        }
        let status = Status::from(InferError::invalid("é".repeat(5000)));
        assert_eq!(status.message().chars().count(), MESSAGE_CHARS_MOST + 1);
    }
}
