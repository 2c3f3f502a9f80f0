//! Fields of `adapter_config.json` that are not used: those that steer training alone, and those
//! that would change what the adapter computes.

use serde_json::{Map, Value};

/// They may have any value.
const OF_TRAINING: [&str; 15] = [
    "auto_mapping",
    "corda_config",
    "eva_config",
    "inference_mode",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
    "velora_config",
];

/// What to do about those that are set.
const REMEDIES: [(&str, &str); 8] = [
    ("bias", "train it with bias=\"none\""),
    ("fan_in_fan_out", "no decoder here stores weights as inputs by outputs; train it with false"),
    ("lora_bias", "train it with lora_bias=False"),
    ("modules_to_save", "merge the adapter into the model (merge_and_unload) and serve that"),
    ("layer_replication", "save the model with its layers replicated, and serve that"),
    ("trainable_token_indices", "merge the adapter into the model and serve that"),
    ("target_parameters", "name modules in target_modules instead"),
    ("use_qalora", "serve the model's unquantised files with a plain adapter"),
];

/// Of initialisations, those that leave the base model as it is.
const PLAIN_INITIALISATIONS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// Refuses what is left when all fields with a use are taken out.
pub fn check_unused(rest: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in rest {
        if OF_TRAINING.contains(&name.as_str()) || is_off(name, value) {
            continue;
        }
        let remedy = REMEDIES.iter().find(|(field, _)| field == name).map_or(
            "merge the adapter into the model and serve that, or remove the field if it does not \
             change what the adapter computes",
            |(_, remedy)| remedy,
        );
        return Err(format!("{name} is {value}, which is not supported: {remedy}"));
    }
    Ok(())
}

/// Refuses initialisations that have changed the base model's weights.
pub fn check_initialisation(value: Option<&Value>) -> Result<(), String> {
    match value {
        None | Some(Value::Null | Value::Bool(_)) => Ok(()),
        Some(Value::String(name)) if PLAIN_INITIALISATIONS.contains(&name.as_str()) => Ok(()),
        Some(other) => Err(format!(
            "init_lora_weights is {other}, which changes the base model's weights: convert the \
             adapter with PEFT (save_pretrained with path_initial_model_for_weight_conversion)"
        )),
    }
}

fn is_off(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || (name == "bias" && text == "none"),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
