//! What PEFT's files, and the tensors in them, are called.

use super::branched_product::BranchedProduct;
use super::lora_kind::LoraKind;

pub const CONFIG_FILE: &str = "adapter_config.json";
pub const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// The names of a branch's tensors.
pub struct BranchNames {
    pub a: String,
    pub b: String,
    /// Of the kinds that have one.
    pub vector: Option<String>,
}

impl BranchNames {
    pub fn of(product: BranchedProduct, kind: LoraKind) -> Self {
        let name = |part: &str| format!("base_model.model.{product}.{part}");
        BranchNames {
            a: name("lora_A.weight"),
            b: name("lora_B.weight"),
            vector: match kind {
                LoraKind::Default => None,
                LoraKind::RmsNorm => Some(name("lora_norm.weight")),
                // PEFT keeps the name that it had before it was a module with a weight.
                LoraKind::Dora => Some(name("lora_magnitude_vector")),
            },
        }
    }
}
