//! An inference request of gRPC: the bytes of its message.

use bytes::Bytes;
use prost::Message;
use terrace_server::kserve::grpc::read_request;
use terrace_server::kserve::messages::ModelInferRequest;

use crate::infer_tensors::check_request;

pub fn run(input: &[u8]) -> bool {
    let Ok(message) = ModelInferRequest::decode(Bytes::copy_from_slice(input)) else {
        return false;
    };
    match read_request(message) {
        Ok(request) => {
            check_request(&request, input.len());
            true
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            false
        }
    }
}
