//! GGUF metadata in the words of `config.json`.

use serde_json::{Map, Value, json};

use super::{ConfigFormat, ModelConfig};
use crate::error::Error;
use crate::gguf::GgufFile;

/// `config.json` key and the GGUF key below the architecture's name.
const COUNTS: [(&str, &str); 8] = [
    ("num_hidden_layers", "block_count"),
    ("max_position_embeddings", "context_length"),
    ("hidden_size", "embedding_length"),
    ("intermediate_size", "feed_forward_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("sliding_window", "attention.sliding_window"),
];

impl ModelConfig {
    /// Translates a GGUF file's metadata.
    pub fn from_gguf(file: &GgufFile) -> Result<Self, Error> {
        let arch: &str = file.require("general.architecture")?;
        let mut values = Map::new();
        values.insert("model_type".into(), json!(arch));
        for (name, key) in COUNTS {
            if let Some(count) = file.get::<u64>(&format!("{arch}.{key}"))? {
                values.insert(name.into(), json!(count));
            }
        }
        if let Some(eps) = file.get::<f64>(&format!("{arch}.attention.layer_norm_rms_epsilon"))? {
            values.insert("rms_norm_eps".into(), json!(eps));
        }
        let rows_of = |name: &str| {
            let mut tensors = file.tensors();
            tensors.find(|(found, _)| *found == name).map(|(_, tensor)| tensor.info.shape[0])
        };
        values.insert("tie_word_embeddings".into(), json!(rows_of("output.weight").is_none()));
        values.insert("vocab_size".into(), json!(rows_of("token_embd.weight")));
        values.insert("rope_parameters".into(), rope_parameters(file, arch)?);
        Ok(ModelConfig { values, format: ConfigFormat::Gguf })
    }
}

fn rope_parameters(file: &GgufFile, arch: &str) -> Result<Value, Error> {
    let key = |name: &str| format!("{arch}.rope.{name}");
    let kind = file.get::<&str>(&key("scaling.type"))?;
    let kind = kind.filter(|kind| *kind != "none").unwrap_or("default");
    let mut settings = Map::new();
    settings.insert("rope_type".into(), json!(kind));
    let numbers = [
        ("rope_theta", "freq_base"),
        ("factor", "scaling.factor"),
        ("original_max_position_embeddings", "scaling.original_context_length"),
        ("attention_factor", "scaling.attn_factor"),
    ];
    for (name, gguf) in numbers {
        if let Some(number) = file.get::<f64>(&key(gguf))? {
            settings.insert(name.into(), json!(number));
        }
    }
    Ok(Value::Object(settings))
}
