//! The configuration of a model that has no file for it.

use super::inference_model::{ModelMetadata, TensorMetadata};
use super::messages::model_version_policy::{Latest, PolicyChoice};
use super::messages::{ModelConfig, ModelInput, ModelOutput, ModelVersionPolicy};

/// What its metadata says; requests are no batches.
pub fn config_of(metadata: &ModelMetadata) -> ModelConfig {
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
    let latest = PolicyChoice::Latest(Latest { num_versions: 1 });
    ModelConfig {
        name: metadata.name.clone(),
        platform: metadata.platform.clone(),
        version_policy: Some(ModelVersionPolicy { policy_choice: Some(latest) }),
        input: metadata.inputs.iter().map(input).collect(),
        output: metadata.outputs.iter().map(output).collect(),
        ..ModelConfig::default()
    }
}
