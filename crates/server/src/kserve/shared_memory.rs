//! Tensors that client and server share in memory, which this server does not do.

use super::infer_error::InferError;

/// The answer to who would register a region, or take its registration back.
pub fn no_regions(kind: &str) -> InferError {
    InferError::unsupported(format!(
        "{kind} shared memory is not supported; send the data of tensors with the request, as \
         binary data or as raw_input_contents"
    ))
}

/// The answer to a question about a region.
pub fn unknown_region(kind: &str, region: &str) -> InferError {
    InferError::not_found(format!(
        "there is no {kind} shared memory region {region:?}; {kind} shared memory is not supported"
    ))
}
