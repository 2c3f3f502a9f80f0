//! Options of other servers that cannot act here. They are refused with the reason, never
//! swallowed: who asks for encryption must not believe to have it.
//!
//! Options of the engine that cannot act are refused by `InferenceConfig::check`.

use std::convert::Infallible;

pub fn root_path(_: &str) -> Result<Infallible, String> {
    Err("Terrace serves at the root; let the proxy in front of it strip the path".to_owned())
}
