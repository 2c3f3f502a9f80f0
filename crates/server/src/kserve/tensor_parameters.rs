//! The parameters of tensors, of inputs and of requested outputs.

use super::infer_error::InferError;
use super::parameter::{Parameter, Parameters};
use super::request_parameters::wrong;

/// Refuses a tensor whose data is said to be in shared memory.
pub fn refuse_shared_memory(tensor: &str, parameters: &Parameters) -> Result<(), InferError> {
    match parameters.keys().any(|name| name.starts_with("shared_memory_")) {
        false => Ok(()),
        true => Err(InferError::unsupported(format!(
            "{tensor:?} is to be in shared memory, which this server does not do; send the data \
             with the request"
        ))),
    }
}

/// How many classes an output is asked for; none where it is the tensor.
pub fn take_classes(parameters: &mut Parameters) -> Result<Option<usize>, InferError> {
    let Some(value) = parameters.remove("classification") else { return Ok(None) };
    match value.as_uint() {
        Some(0) => Ok(None),
        Some(classes) => Ok(Some(usize::try_from(classes).unwrap_or(usize::MAX))),
        None => Err(wrong("classification", &value, "a whole number from 0 on")),
    }
}

pub fn refuse_unknown(kind: &str, tensor: &str, parameters: &Parameters) -> Result<(), InferError> {
    match parameters.iter().next() {
        None => Ok(()),
        Some((name, value)) => {
            let value = Parameter::shown(value);
            Err(InferError::invalid(format!(
                "{kind} {tensor:?} has the parameter {name:?} ({value}), which is not known"
            )))
        }
    }
}
