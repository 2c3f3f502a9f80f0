//! Yi's first releases, which named Llama's norms their own way.

use crate::config::ModelConfig;
use crate::families::{Family, TensorNames};

pub(super) struct Yi;

impl Family for Yi {
    fn model_types(&self) -> &[&str] {
        &["Yi"]
    }

    fn names(&self, _config: &ModelConfig) -> TensorNames {
        TensorNames { attention_norm: "ln1", ffn_norm: "ln2", ..TensorNames::HUGGING_FACE }
    }
}
