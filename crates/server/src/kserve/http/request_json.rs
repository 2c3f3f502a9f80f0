//! The JSON of an inference request, read field by field as it comes.
//!
//! The elements of a tensor go straight into their type where its datatype and shape stand before
//! them, as clients write it; else they are looked at again when these are known.

use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::json_elements::JsonElements;
use crate::kserve::datatype::Datatype;
use crate::kserve::parameter::{Parameter, Parameters};
use crate::kserve::shape::elements_of;
use crate::kserve::tensor_data::TensorData;

#[derive(Debug, Default)]
pub struct RequestJson<'a> {
    pub id: String,
    pub parameters: Parameters,
    pub inputs: Vec<InputJson<'a>>,
    pub outputs: Vec<OutputJson>,
    /// Where fields stand that nobody knows.
    pub unknown: Vec<String>,
}

#[derive(Debug, Default)]
pub struct InputJson<'a> {
    pub name: String,
    pub datatype: String,
    pub shape: Vec<i64>,
    pub parameters: Parameters,
    pub data: InputData<'a>,
    unknown: Vec<String>,
}

#[derive(Debug, Default)]
pub enum InputData<'a> {
    /// It stands behind the JSON.
    #[default]
    Absent,
    Read(TensorData),
    /// It came before its datatype or its shape.
    Unread(&'a RawValue),
}

#[derive(Debug, Default)]
pub struct OutputJson {
    pub name: String,
    pub parameters: Parameters,
    unknown: Vec<String>,
}

/// Tensors of a request, and parameters of each: more are a mistake.
const ITEMS_MOST: usize = 1024;

/// Reads an object: each known name once, by its own arm; others are noted.
macro_rules! read_fields {
    ($map:ident, $unknown:expr, { $($name:literal => $read:expr),* $(,)? }) => {{
        let mut seen: Vec<String> = Vec::new();
        while let Some(name) = $map.next_key::<String>()? {
            if seen.contains(&name) {
                return Err(Error::custom(format!("{name:?} is given twice")));
            }
            match name.as_str() {
                $($name => $read,)*
                _ => {
                    $map.next_value::<IgnoredAny>()?;
                    $unknown.push(name.clone());
                }
            }
            if seen.len() == ITEMS_MOST {
                return Err(Error::custom(format!("there are more than {ITEMS_MOST} fields")));
            }
            seen.push(name);
        }
    }};
}

impl<'de> Deserialize<'de> for RequestJson<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RequestVisitor;

        impl<'de> Visitor<'de> for RequestVisitor {
            type Value = RequestJson<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut request = RequestJson::default();
                let mut has_inputs = false;
                read_fields!(map, request.unknown, {
                    "id" => request.id = map.next_value()?,
                    "parameters" => request.parameters = map.next_value_seed(ParametersSeed)?,
                    "inputs" => {
                        request.inputs = map.next_value::<Items<InputJson<'_>>>()?.0;
                        has_inputs = true;
                    },
                    "outputs" => request.outputs = map.next_value::<Items<OutputJson>>()?.0,
                });
                if !has_inputs {
                    return Err(Error::custom("inputs is missing"));
                }
                request.note_unknown();
                Ok(request)
            }
        }

        deserializer.deserialize_map(RequestVisitor)
    }
}

impl RequestJson<'_> {
    /// Notes the fields that it has, for the tests of what is documented.
    #[cfg(test)]
    pub fn note_taken(&self) {
        let fields = [
            ("id", !self.id.is_empty()),
            ("parameters", true),
            ("inputs", true),
            ("outputs", !self.outputs.is_empty()),
        ];
        for (name, _) in fields.into_iter().filter(|(_, is_there)| *is_there) {
            crate::fields::tests::TAKEN.with_borrow_mut(|taken| taken.insert(name.to_owned()));
        }
    }

    /// Gathers what the tensors have noted.
    fn note_unknown(&mut self) {
        let inputs = self.inputs.iter().map(|it| &it.unknown).enumerate();
        let inputs = inputs.map(|(index, names)| ("inputs", index, names));
        let outputs = self.outputs.iter().map(|it| &it.unknown).enumerate();
        let outputs = outputs.map(|(index, names)| ("outputs", index, names));
        for (list, index, names) in inputs.chain(outputs) {
            let paths = names.iter().map(|name| format!("{list}[{index}].{name}"));
            self.unknown.extend(paths);
        }
    }
}

impl<'de> Deserialize<'de> for InputJson<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InputVisitor;

        impl<'de> Visitor<'de> for InputVisitor {
            type Value = InputJson<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an input: an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut input = InputJson::default();
                let mut has_shape = false;
                read_fields!(map, input.unknown, {
                    "name" => input.name = map.next_value()?,
                    "datatype" => input.datatype = map.next_value()?,
                    "shape" => {
                        input.shape = map.next_value()?;
                        has_shape = true;
                    },
                    "parameters" => input.parameters = map.next_value_seed(ParametersSeed)?,
                    "data" => {
                        let seed = input.elements().filter(|_| has_shape);
                        input.data = match seed {
                            Some(seed) => InputData::Read(map.next_value_seed(seed)?),
                            None => InputData::Unread(map.next_value()?),
                        };
                    },
                });
                for (name, is_there) in [
                    ("name", !input.name.is_empty()),
                    ("datatype", !input.datatype.is_empty()),
                    ("shape", has_shape),
                ] {
                    if !is_there {
                        let input = &input.name;
                        return Err(Error::custom(format!("{name} of input {input:?} is missing")));
                    }
                }
                Ok(input)
            }
        }

        deserializer.deserialize_map(InputVisitor)
    }
}

impl InputJson<'_> {
    /// How its elements are read; `None` where that is not known yet, or wrong.
    fn elements(&self) -> Option<JsonElements> {
        let datatype = Datatype::of_name(&self.datatype)?;
        let most = elements_of(&self.name, &self.shape).ok()?;
        Some(JsonElements { datatype, most })
    }
}

impl<'de> Deserialize<'de> for OutputJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OutputVisitor;

        impl<'de> Visitor<'de> for OutputVisitor {
            type Value = OutputJson;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an output: an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut output = OutputJson::default();
                read_fields!(map, output.unknown, {
                    "name" => output.name = map.next_value()?,
                    "parameters" => output.parameters = map.next_value_seed(ParametersSeed)?,
                });
                match output.name.is_empty() {
                    true => Err(Error::custom("name of an output is missing")),
                    false => Ok(output),
                }
            }
        }

        deserializer.deserialize_map(OutputVisitor)
    }
}

/// A list of tensors.
struct Items<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor<T>(Vec<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tensors")
            }

            fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self::Value, A::Error> {
                while let Some(item) = seq.next_element()? {
                    if self.0.len() == ITEMS_MOST {
                        let message = format!("there are more than {ITEMS_MOST} tensors");
                        return Err(Error::custom(message));
                    }
                    self.0.push(item);
                }
                Ok(Items(self.0))
            }
        }

        deserializer.deserialize_seq(ItemsVisitor(Vec::new()))
    }
}

/// An object of parameters.
pub struct ParametersSeed;

impl<'de> DeserializeSeed<'de> for ParametersSeed {
    type Value = Parameters;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parameters, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ParametersSeed {
    type Value = Parameters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameters, A::Error> {
        let mut parameters = Parameters::new();
        while let Some(name) = map.next_key::<String>()? {
            if parameters.len() == ITEMS_MOST {
                return Err(Error::custom(format!("there are more than {ITEMS_MOST} parameters")));
            }
            let value = map.next_value_seed(ParameterSeed(&name))?;
            if parameters.insert(name.clone(), value).is_some() {
                return Err(Error::custom(format!("parameter {name:?} is given twice")));
            }
        }
        Ok(parameters)
    }
}

/// The value of the parameter of that name.
struct ParameterSeed<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for ParameterSeed<'_> {
    type Value = Parameter;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parameter, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ParameterSeed<'_> {
    type Value = Parameter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "true, false, a number or a text as parameter {:?}", self.0)
    }

    fn visit_bool<E: Error>(self, it: bool) -> Result<Parameter, E> {
        Ok(Parameter::Bool(it))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Parameter, E> {
        Ok(Parameter::Int(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Parameter, E> {
        Ok(Parameter::of_uint(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Parameter, E> {
        Ok(Parameter::Double(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Parameter, E> {
        Ok(Parameter::Text(text.to_owned()))
    }
}
