//! The parameters of a request that the protocol itself knows.

use std::time::Duration;

use super::infer_error::InferError;
use super::parameter::{Parameter, Parameters};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestParameters {
    /// 1 is the highest; 0 is that of requests that say nothing.
    pub priority: u64,
    /// Of the whole request.
    pub timeout: Option<Duration>,
    /// Whether outputs come as bytes where the request does not say so for each.
    pub is_binary_output: bool,
    /// What is left for the model.
    pub own: Parameters,
}

impl RequestParameters {
    /// Takes what is known. A sequence is refused: what a request means here does not depend on
    /// those before it.
    pub fn take(mut own: Parameters) -> Result<Self, InferError> {
        for name in ["sequence_id", "sequence_start", "sequence_end"] {
            if let Some(value) = own.remove(name).filter(asks_for_something) {
                let value = value.shown();
                return Err(InferError::unsupported(format!(
                    "{name} is {value}: this server has no models of sequences; leave it out"
                )));
            }
        }
        // Each request has one response, which is the last.
        take_bool(&mut own, "triton_enable_empty_final_response")?;
        let timeout_us = take_uint(&mut own, "timeout")?.filter(|microseconds| *microseconds > 0);
        Ok(Self {
            priority: take_uint(&mut own, "priority")?.unwrap_or(0),
            timeout: timeout_us.map(Duration::from_micros),
            is_binary_output: take_bool(&mut own, "binary_data_output")?.unwrap_or(false),
            own,
        })
    }
}

fn asks_for_something(value: &Parameter) -> bool {
    match value {
        Parameter::Bool(it) => *it,
        Parameter::Int(number) => *number != 0,
        Parameter::Text(text) => !text.is_empty(),
        Parameter::Uint(_) | Parameter::Double(_) => true,
    }
}

fn take_uint(parameters: &mut Parameters, name: &str) -> Result<Option<u64>, InferError> {
    let Some(value) = parameters.remove(name) else { return Ok(None) };
    match value.as_uint() {
        Some(number) => Ok(Some(number)),
        None => Err(wrong(name, &value, "a whole number from 0 on")),
    }
}

pub fn take_bool(parameters: &mut Parameters, name: &str) -> Result<Option<bool>, InferError> {
    let Some(value) = parameters.remove(name) else { return Ok(None) };
    match value.as_bool() {
        Some(it) => Ok(Some(it)),
        None => Err(wrong(name, &value, "true or false")),
    }
}

pub fn wrong(name: &str, value: &Parameter, want: &str) -> InferError {
    InferError::invalid(format!("parameter {name} is {}: it must be {want}", value.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(given: &[(&str, Parameter)]) -> Result<RequestParameters, String> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        RequestParameters::take(given.collect()).map_err(|error| error.message)
    }

    #[test]
    fn what_is_known_is_taken_and_the_rest_left() {
        let own = ("temperature", Parameter::Double(0.5));
        let found = take(&[
            ("priority", Parameter::Int(3)),
            ("timeout", Parameter::Int(1_500)),
            ("binary_data_output", Parameter::Bool(true)),
            ("sequence_id", Parameter::Int(0)),
            ("sequence_start", Parameter::Bool(false)),
            ("triton_enable_empty_final_response", Parameter::Bool(true)),
            own.clone(),
        ]);
        let want = RequestParameters {
            priority: 3,
            timeout: Some(Duration::from_micros(1_500)),
            is_binary_output: true,
            own: Parameters::from([(own.0.to_owned(), own.1)]),
        };
        assert_eq!(found, Ok(want));
        assert_eq!(take(&[("timeout", Parameter::Int(0))]), Ok(RequestParameters::default()));
    }

    #[test]
    fn wrong_values_and_sequences_are_refused() {
        for (name, value, part) in [
            ("sequence_id", Parameter::Int(7), "sequence_id is 7"),
            ("sequence_id", Parameter::Text("a".to_owned()), "sequence_id is \"a\""),
            ("sequence_end", Parameter::Bool(true), "sequence_end is true"),
            ("priority", Parameter::Int(-1), "priority is -1: it must be a whole number"),
            ("timeout", Parameter::Double(0.5), "timeout is 0.5"),
            ("binary_data_output", Parameter::Int(1), "is 1: it must be true or false"),
        ] {
            let error = take(&[(name, value)]).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
    }
}
