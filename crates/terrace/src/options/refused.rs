//! Options of other servers that cannot act here. They are refused with the reason, never
//! swallowed: who asks for encryption must not believe to have it.
//!
//! Options of the engine that cannot act are refused by `InferenceConfig::check`.

use std::convert::Infallible;

use crate::options::flag;

pub fn root_path(_: &str) -> Result<Infallible, String> {
    Err("Terrace serves at the root; let the proxy in front of it strip the path".to_owned())
}

pub fn cpu_offload(text: &str) -> Result<bool, String> {
    fixed(text, false, "pages stay on their device; those of preempted sequences are swapped out")
}

pub fn allocate_buffers(text: &str) -> Result<bool, String> {
    fixed(text, true, "all pages are taken at the start")
}

pub fn range_is_prefix(text: &str) -> Result<bool, String> {
    fixed(text, true, "sequences are not padded, so what is protected begins at their first token")
}

/// A flag that has one value here, whatever is asked.
fn fixed(text: &str, value: bool, why: &str) -> Result<bool, String> {
    match flag(text)? == value {
        true => Ok(value),
        false => Err(format!("{why}: leave it out")),
    }
}
