//! A model's configuration, as text (`config.pbtxt`) or as JSON.

use prost::Message;
use terrace_server::kserve::{
    ModelConfig, model_config_json, read_model_config, read_model_config_json,
};

pub fn run(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    let read = [read_model_config(text), read_model_config_json(text)];
    read.into_iter().fold(false, |accepted, read| match read {
        Ok(config) => {
            check_json(&config);
            true
        }
        Err(error) => {
            assert!(!error.is_empty());
            accepted
        }
    })
}

/// Its JSON is that of the same configuration. Bytes are compared, for no number equals NaN; where
/// there is one its JSON, for JSON's has no sign.
fn check_json(config: &ModelConfig) {
    let json = model_config_json(config).to_string();
    let again = read_model_config_json(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    if json.contains("NaN") {
        assert_eq!(model_config_json(&again).to_string(), json);
    } else {
        assert_eq!(again.encode_to_vec(), config.encode_to_vec(), "{json}");
    }
}
