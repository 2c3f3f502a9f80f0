//! The body of an inference request: JSON, with the bytes of tensors behind it.
//!
//! The first four bytes say where the JSON ends, as the request's header would; the largest number
//! stands for no header.

use bytes::Bytes;
use terrace_server::kserve::http::InferBody;

use crate::infer_tensors::check_request;

pub fn run(input: &[u8]) -> bool {
    let Some((json_bytes, body)) = input.split_first_chunk::<4>() else { return false };
    let json_bytes = u32::from_le_bytes(*json_bytes);
    let json_bytes = (json_bytes != u32::MAX).then_some(json_bytes as usize);
    match InferBody::parse(&Bytes::copy_from_slice(body), json_bytes) {
        Ok(body) => {
            check_request(&body.request, input.len());
            true
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            false
        }
    }
}
