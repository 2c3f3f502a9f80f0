//! A parameter of a request, a tensor or a response.

use std::collections::BTreeMap;

use super::messages::InferParameter;
use super::messages::infer_parameter::ParameterChoice;

#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    Bool(bool),
    Int(i64),
    /// Larger than any [`Parameter::Int`].
    Uint(u64),
    Double(f64),
    Text(String),
}

/// By name.
pub type Parameters = BTreeMap<String, Parameter>;

impl Parameter {
    pub fn of_uint(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Uint(number), Self::Int)
    }

    /// A whole number that is not negative.
    pub fn as_uint(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            Self::Uint(number) => Some(*number),
            Self::Bool(_) | Self::Double(_) | Self::Text(_) => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(it) => Some(*it),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As complaints show it.
    pub fn shown(&self) -> String {
        /// A text may be as long as the request.
        const SHOWN_CHARS: usize = 60;
        match self {
            Self::Bool(it) => it.to_string(),
            Self::Int(number) => number.to_string(),
            Self::Uint(number) => number.to_string(),
            Self::Double(number) => number.to_string(),
            Self::Text(text) => format!("{:?}", text.chars().take(SHOWN_CHARS).collect::<String>()),
        }
    }

    /// `None` where the message has no value.
    pub fn of_message(message: InferParameter) -> Option<Self> {
        Some(match message.parameter_choice? {
            ParameterChoice::BoolParam(it) => Self::Bool(it),
            ParameterChoice::Int64Param(number) => Self::Int(number),
            ParameterChoice::StringParam(text) => Self::Text(text),
            ParameterChoice::DoubleParam(number) => Self::Double(number),
            ParameterChoice::Uint64Param(number) => Self::of_uint(number),
        })
    }

    pub fn into_message(self) -> InferParameter {
        let choice = match self {
            Self::Bool(it) => ParameterChoice::BoolParam(it),
            Self::Int(number) => ParameterChoice::Int64Param(number),
            Self::Uint(number) => ParameterChoice::Uint64Param(number),
            Self::Double(number) => ParameterChoice::DoubleParam(number),
            Self::Text(text) => ParameterChoice::StringParam(text),
        };
        InferParameter { parameter_choice: Some(choice) }
    }
}
