//! Yi's first releases, which named Llama's norms their own way.

use crate::config::ModelConfig;
use crate::decoder::DecoderWeights;
use crate::error::Error;
use crate::families::{Family, TensorNames, standard_weights};
use crate::spec::DecoderSpec;
use crate::weights::Weights;

pub(super) struct Yi;

impl Family for Yi {
    fn model_types(&self) -> &[&str] {
        &["Yi"]
    }

    fn weights(
        &self,
        config: &ModelConfig,
        spec: &DecoderSpec,
        source: &Weights,
    ) -> Result<DecoderWeights, Error> {
        let names =
            TensorNames { attention_norm: "ln1", ffn_norm: "ln2", ..TensorNames::HUGGING_FACE };
        standard_weights(config, spec, source, &names)
    }
}
