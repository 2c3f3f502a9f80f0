//! Yi's first releases, which named Llama's norms their own way.

use crate::config::ModelConfig;
use crate::decoder::DecoderTensors;
use crate::error::Error;
use crate::families::{Family, TensorNames, standard_tensors};
use crate::spec::DecoderSpec;
use crate::weights::Weights;

pub(super) struct Yi;

impl Family for Yi {
    fn model_types(&self) -> &[&str] {
        &["Yi"]
    }

    fn tensors(
        &self,
        _config: &ModelConfig,
        spec: &DecoderSpec,
        source: &Weights,
    ) -> Result<DecoderTensors, Error> {
        let names =
            TensorNames { attention_norm: "ln1", ffn_norm: "ln2", ..TensorNames::HUGGING_FACE };
        standard_tensors(spec, source, &names)
    }
}
