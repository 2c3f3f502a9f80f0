//! Llama 2 and 3, and those who publish under their layout: Vicuna, Yi, DeepSeek-LLM, SmolLM2,
//! and Mistral with its sliding window.

use crate::families::Family;

pub(super) struct Llama;

impl Family for Llama {
    fn model_types(&self) -> &[&str] {
        &["llama", "mistral"]
    }
}
