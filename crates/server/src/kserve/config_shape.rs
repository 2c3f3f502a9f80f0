//! The configuration of a model that has no file for it.

use super::inference_model::{ModelMetadata, TensorMetadata};
use super::messages::model_version_policy::{Latest, PolicyChoice};
use super::messages::{ModelConfig, ModelInput, ModelOutput, ModelVersionPolicy};

/// What its metadata says; requests are no batches.
pub fn config_of(metadata: &ModelMetadata) -> ModelConfig {
    let latest = PolicyChoice::Latest(Latest { num_versions: 1 });
    let config = ModelConfig {
        name: metadata.name.clone(),
        platform: metadata.platform.clone(),
        version_policy: Some(ModelVersionPolicy { policy_choice: Some(latest) }),
        ..ModelConfig::default()
    };
    with_tensors(config, metadata)
}

/// A model's own configuration, with the tensors of its metadata where it names none.
pub fn with_tensors(mut config: ModelConfig, metadata: &ModelMetadata) -> ModelConfig {
    let input = |tensor: &TensorMetadata| ModelInput {
        name: tensor.name.clone(),
        data_type: tensor.datatype.config_type().into(),
        dims: tensor.shape.clone(),
        ..ModelInput::default()
    };
    let output = |tensor: &TensorMetadata| ModelOutput {
        name: tensor.name.clone(),
        data_type: tensor.datatype.config_type().into(),
        dims: tensor.shape.clone(),
        ..ModelOutput::default()
    };
    if config.input.is_empty() {
        config.input = metadata.inputs.iter().map(input).collect();
    }
    if config.output.is_empty() {
        config.output = metadata.outputs.iter().map(output).collect();
    }
    config
}
