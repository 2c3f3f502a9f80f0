//! A model's configuration as JSON, with the names that its text has.

use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::Value;

use super::descriptors::model_config_descriptor;
use super::messages::ModelConfig;

/// Numbers are numbers, and what is not set has its default.
const AS_TRITON: SerializeOptions = SerializeOptions::new()
    .stringify_64_bit_integers(false)
    .use_proto_field_name(true)
    .skip_default_fields(false);

pub fn model_config_json(config: &ModelConfig) -> Value {
    let mut message = DynamicMessage::new(model_config_descriptor());
    message.transcode_from(config).expect("the descriptor is that of the message");
    message
        .serialize_with_options(serde_json::value::Serializer, &AS_TRITON)
        .expect("names, texts and numbers always serialise")
}

/// Says what is wrong, and where. A field that is not known is an error.
pub fn read_model_config_json(json: &str) -> Result<ModelConfig, String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(model_config_descriptor(), &mut reader);
    let message = message.map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    message.transcode_to().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::config_text::read_model_config;
    use super::*;

    #[test]
    fn names_and_numbers_are_as_in_the_text() {
        let text = r#"name: "m" max_batch_size: 64
            input { name: "KEYS" data_type: TYPE_INT64 dims: [ -1, 9007199254740993 ] }
            dynamic_batching { max_queue_delay_microseconds: 100 }
            parameters { key: "slots" value { string_value: "26" } }"#;
        let config = read_model_config(text).expect("a configuration");
        let found = model_config_json(&config);
        assert_eq!((&found["name"], &found["max_batch_size"]), (&json!("m"), &json!(64)));
        let input = &found["input"][0];
        assert_eq!(input["data_type"], "TYPE_INT64");
        assert_eq!(input["dims"], json!([-1, 9_007_199_254_740_993_i64]));
        assert_eq!((&input["format"], &input["optional"]), (&json!("FORMAT_NONE"), &json!(false)));
        assert_eq!(found["dynamic_batching"]["max_queue_delay_microseconds"], 100);
        assert_eq!(found["parameters"], json!({"slots": {"string_value": "26"}}));
        assert_eq!((&found["backend"], &found["output"]), (&json!(""), &json!([])));
        assert_eq!(read_model_config_json(&found.to_string()), Ok(config));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (json, part) in [
            (r#"{"nme": "m"}"#, "nme"),
            (r#"{"input": [{"dims": ["x"]}]}"#, "line 1"),
            (r#"{"max_batch_size": 4294967296}"#, "line 1"),
            ("[]", "line 1"),
            ("{} {}", "trailing characters"),
            ("", "EOF"),
        ] {
            let error = read_model_config_json(json).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
        let deep = format!("{}{}", r#"{"input":["#.repeat(200), "]}".repeat(200));
        assert!(read_model_config_json(&deep).is_err());
    }
}
