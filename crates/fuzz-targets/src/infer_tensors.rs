//! What always holds of an inference request that was accepted.

use bytes::Bytes;
use terrace_server::kserve::{InferRequest, Tensor, TensorData};

/// `input_bytes` is what the request was read from.
pub fn check_request(request: &InferRequest, input_bytes: usize) {
    for tensor in &request.tensors {
        // Beside an empty dimension others may be of any length.
        let is_empty = tensor.shape().contains(&0);
        let elements = if is_empty { 0 } else { tensor.shape().iter().product() };
        assert_eq!(elements, tensor.data().len() as i64, "{:?}", tensor.shape());
        assert!(tensor.data().len() <= input_bytes, "more elements than bytes");
        check_bytes(tensor);
    }
}

/// Its bytes are those of the same tensor.
fn check_bytes(tensor: &Tensor) {
    let raw = raw_of(tensor.data());
    let (name, shape) = (tensor.name().to_owned(), tensor.shape().to_vec());
    let again = Tensor::from_raw(name, tensor.datatype(), shape, &Bytes::from(raw.clone()));
    assert_eq!(raw_of(again.expect("they were written just now").data()), raw);
}

fn raw_of(data: &TensorData) -> Vec<u8> {
    let mut raw = Vec::new();
    data.write_raw(&mut raw);
    assert_eq!(raw.len(), data.raw_len());
    raw
}
