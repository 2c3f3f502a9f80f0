//! Settings that Triton changes while it runs: here they are what they are.

use super::infer_error::InferError;

/// The settings of traces.
pub const TRACE_SETTINGS: [(&str, &str); 1] = [("trace_level", "OFF")];

/// Which kinds of lines the log has.
pub const LOG_FLAGS: [(&str, bool); 3] =
    [("log_info", true), ("log_warning", true), ("log_error", true)];

/// Refuses to change `setting`, one of traces.
pub fn fixed_trace(setting: &str) -> InferError {
    InferError::unsupported(format!(
        "the trace setting {setting:?} cannot be changed: this server traces no requests; GET \
         /metrics and the statistics of models say where time goes"
    ))
}

/// Refuses to change `setting`, one of the log.
pub fn fixed_log(setting: &str) -> InferError {
    InferError::unsupported(format!(
        "the log setting {setting:?} cannot be changed while the server runs; start it with \
         --log-level"
    ))
}
