//! What every request passes on its way to a route, and what it meets where there is none.

pub mod auth;
mod caller;
pub mod cors;
pub mod encodings;
mod request_log;
mod unknown_route;

pub use caller::Caller;
pub use cors::AllowedOrigin;
pub use request_log::{LoggedStatus, RequestLog, log_request};
pub use unknown_route::{unknown_path, wrong_method};
