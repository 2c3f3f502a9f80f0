//! What the tensors of a standard decoder are called.

use crate::config::ConfigFormat;

/// Names of the tensors outside the layers, and inside a layer, where a prefix goes before.
#[derive(Clone, Copy, Debug)]
pub struct TensorNames {
    pub embed: &'static str,
    pub final_norm: &'static str,
    pub head: &'static str,
    /// What stands before a layer's number.
    pub layer_prefix: &'static str,
    pub attention_norm: &'static str,
    pub query: &'static str,
    pub key: &'static str,
    pub value: &'static str,
    pub output: &'static str,
    pub query_norm: &'static str,
    pub key_norm: &'static str,
    pub ffn_norm: &'static str,
    pub gate: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

impl TensorNames {
    pub fn of(format: ConfigFormat) -> Self {
        match format {
            ConfigFormat::HuggingFace => Self::HUGGING_FACE,
            ConfigFormat::Gguf => Self::GGUF,
        }
    }

    pub const HUGGING_FACE: TensorNames = TensorNames {
        embed: "model.embed_tokens",
        final_norm: "model.norm",
        head: "lm_head",
        layer_prefix: "model.layers",
        attention_norm: "input_layernorm",
        query: "self_attn.q_proj",
        key: "self_attn.k_proj",
        value: "self_attn.v_proj",
        output: "self_attn.o_proj",
        query_norm: "self_attn.q_norm",
        key_norm: "self_attn.k_norm",
        ffn_norm: "post_attention_layernorm",
        gate: "mlp.gate_proj",
        up: "mlp.up_proj",
        down: "mlp.down_proj",
    };

    pub const GGUF: TensorNames = TensorNames {
        embed: "token_embd",
        final_norm: "output_norm",
        head: "output",
        layer_prefix: "blk",
        attention_norm: "attn_norm",
        query: "attn_q",
        key: "attn_k",
        value: "attn_v",
        output: "attn_output",
        query_norm: "attn_q_norm",
        key_norm: "attn_k_norm",
        ffn_norm: "ffn_norm",
        gate: "ffn_gate",
        up: "ffn_up",
        down: "ffn_down",
    };

    /// The full name of a tensor of a layer, without `.weight` or `.bias`.
    pub fn in_layer(&self, layer: usize, tensor: &str) -> String {
        format!("{}.{layer}.{tensor}", self.layer_prefix)
    }
}
