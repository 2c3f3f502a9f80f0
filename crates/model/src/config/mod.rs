//! A model's own description of itself: the keys of `config.json`.
//!
//! GGUF files say the same things under other names; `gguf.rs` translates them, so a family reads
//! one vocabulary. Both of Hugging Face's styles are understood (`rope_theta` and `rope_scaling`
//! beside `rope_parameters`). Every number is checked for range before it sizes anything.

mod gguf;

use serde_json::{Map, Value};

use crate::error::Error;

/// No real model has more of anything than this; a larger number is a broken file.
const MAX_COUNT: u64 = 1 << 24;

/// What wrote the description, which decides tensor names and the order of rotated pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFormat {
    HuggingFace,
    Gguf,
}

#[derive(Clone, Debug)]
pub struct ModelConfig {
    values: Map<String, Value>,
    format: ConfigFormat,
}

impl ModelConfig {
    /// Reads the text of a `config.json`.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        match serde_json::from_str(text) {
            Ok(Value::Object(values)) => {
                Ok(ModelConfig { values, format: ConfigFormat::HuggingFace })
            }
            Ok(other) => Err(Error::Config(format!("expected an object, found {other}"))),
            Err(error) => Err(Error::Config(format!("not JSON: {error}"))),
        }
    }

    pub fn format(&self) -> ConfigFormat {
        self.format
    }

    pub fn model_type(&self) -> Result<&str, Error> {
        self.str("model_type").ok_or_else(|| missing("model_type"))
    }

    /// The value under a key; `null` counts as absent.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    pub fn str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// A count that must be there and be at least one.
    pub fn count(&self, key: &str) -> Result<usize, Error> {
        self.count_or_absent(key)?.ok_or_else(|| missing(key))
    }

    /// A count of at least one, or nothing.
    pub fn count_or_absent(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64() {
            Some(count @ 1..=MAX_COUNT) => Ok(Some(count as usize)),
            _ => Err(Error::Config(format!("{key} is {value}, expected 1 to {MAX_COUNT}"))),
        }
    }

    pub fn number(&self, key: &str) -> Result<f64, Error> {
        self.number_or_absent(key)?.ok_or_else(|| missing(key))
    }

    pub fn number_or_absent(&self, key: &str) -> Result<Option<f64>, Error> {
        number_in(&self.values, key)
    }

    pub fn flag(&self, key: &str) -> Result<bool, Error> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(Error::Config(format!("{key} is {other}, expected true or false"))),
        }
    }

    /// `true` for each layer that sees only a window, from `layer_types` if it is there.
    pub fn windowed_layers(&self, layers: usize, otherwise: bool) -> Result<Vec<bool>, Error> {
        let Some(types) = self.get("layer_types") else { return Ok(vec![otherwise; layers]) };
        let types = types.as_array().filter(|types| types.len() == layers).ok_or_else(|| {
            Error::Config(format!("layer_types must list {layers} layers, found {types}"))
        })?;
        types
            .iter()
            .map(|kind| match kind.as_str() {
                Some("sliding_attention") => Ok(true),
                Some("full_attention") => Ok(false),
                _ => Err(Error::Config(format!("layer_types names {kind}, which is unknown"))),
            })
            .collect()
    }

    /// The settings of the rotation, whichever style wrote them.
    pub fn rope_settings(&self) -> RopeSettings<'_> {
        let nested = self.get("rope_parameters").or_else(|| self.get("rope_scaling"));
        RopeSettings { config: self, nested: nested.and_then(Value::as_object) }
    }
}

/// The rotation's keys: nested under `rope_parameters` or `rope_scaling`, or beside the others.
pub struct RopeSettings<'a> {
    config: &'a ModelConfig,
    nested: Option<&'a Map<String, Value>>,
}

impl RopeSettings<'_> {
    /// `default`, `linear`, `llama3`, `yarn` and so on.
    pub fn kind(&self) -> &str {
        let named = |key| self.nested.and_then(|map| map.get(key)).and_then(Value::as_str);
        named("rope_type").or_else(|| named("type")).unwrap_or("default")
    }

    pub fn theta(&self) -> Result<f64, Error> {
        let theta = match self.nested_number("rope_theta")? {
            Some(theta) => Some(theta),
            None => self.config.number_or_absent("rope_theta")?,
        };
        let theta = theta.unwrap_or(10_000.0);
        if theta > 1.0 { Ok(theta) } else { Err(bad_number("rope_theta", theta)) }
    }

    /// A positive number of the scaling that must be there.
    pub fn positive(&self, key: &str) -> Result<f64, Error> {
        let value = self.nested_number(key)?.ok_or_else(|| missing(key))?;
        if value > 0.0 { Ok(value) } else { Err(bad_number(key, value)) }
    }

    pub fn nested_number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.nested.map_or(Ok(None), |map| number_in(map, key))
    }
}

fn number_in(map: &Map<String, Value>, key: &str) -> Result<Option<f64>, Error> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(Error::Config(format!("{key} is {value}, expected a number"))),
        },
    }
}

fn missing(key: &str) -> Error {
    Error::Config(format!("{key} is missing"))
}

fn bad_number(key: &str, value: f64) -> Error {
    Error::Config(format!("{key} is {value}, which is too small"))
}
