//! The layers of a model.

use super::classes;
use crate::gin::{GinArgs, GinConfig, GinError};

#[derive(Clone, Debug, PartialEq)]
pub struct NetworkArgs {
    pub num_layers: usize,
    pub hidden_size: usize,
    pub num_attention_heads: usize,
    /// Numbers of a head.
    pub kv_channels: usize,
    /// Acts in training alone.
    pub hidden_dropout: f64,
    pub norm_epsilon: f64,
    pub is_causal: bool,
    pub dtype: NetworkDtype,
    /// Which kernels the original computes with; ours are chosen by the device.
    pub kernel_backend: String,
    pub target_group_size: usize,
    pub num_position_buckets: usize,
    /// Acts in training alone.
    pub recompute_input_layernorm: bool,
    /// Acts in training alone.
    pub recompute_input_silu: bool,
    /// `None` where rows of items are as wide as the model.
    pub item_embedding_dim: Option<usize>,
    pub contextual_embedding_dim: Option<usize>,
    /// `None` where the longest sequence of a batch is meant.
    pub scaling_seqlen: Option<usize>,
    /// Where the original keeps its rows at inference.
    pub embedding_backend: Option<String>,
    /// In training: whether tokens of the context see only what is before them, as at inference.
    pub disable_contextual_mask: bool,
    pub backbone: Backbone,
    pub transformer_ffn_dim: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkDtype {
    Bfloat16,
    Float16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backbone {
    Hstu,
    Transformer,
}

const DTYPES: [(&str, NetworkDtype); 2] =
    [("bfloat16", NetworkDtype::Bfloat16), ("float16", NetworkDtype::Float16)];
const KERNEL_BACKENDS: [(&str, &str); 3] =
    [("cutlass", "cutlass"), ("triton", "triton"), ("pytorch", "pytorch")];
const BACKBONES: [(&str, Backbone); 2] =
    [("hstu", Backbone::Hstu), ("transformer", Backbone::Transformer)];

impl NetworkArgs {
    pub fn read(config: &GinConfig) -> Result<Self, GinError> {
        let args = GinArgs::new(config, "", &classes::NETWORK);
        // Numbers that are not above zero stand for none.
        let above_zero = |param: &str| -> Result<Option<usize>, GinError> {
            let number = usize::try_from(args.or(param, -1i64)?).ok();
            Ok(number.filter(|number| *number > 0))
        };
        let kernel_backend = args.one_of("kernel_backend", &KERNEL_BACKENDS)?;
        Ok(NetworkArgs {
            num_layers: args.required("num_layers")?,
            hidden_size: args.required("hidden_size")?,
            num_attention_heads: args.required("num_attention_heads")?,
            kv_channels: args.required("kv_channels")?,
            hidden_dropout: args.or("hidden_dropout", 0.2)?,
            norm_epsilon: args.or("norm_epsilon", 1e-5)?,
            is_causal: args.or("is_causal", true)?,
            dtype: args.one_of("dtype_str", &DTYPES)?.unwrap_or(NetworkDtype::Bfloat16),
            kernel_backend: kernel_backend.unwrap_or("cutlass").to_owned(),
            target_group_size: args.or("target_group_size", 1)?,
            num_position_buckets: args.or("num_position_buckets", 8192)?,
            recompute_input_layernorm: args.or("recompute_input_layernorm", false)?,
            recompute_input_silu: args.or("recompute_input_silu", false)?,
            item_embedding_dim: above_zero("item_embedding_dim")?,
            contextual_embedding_dim: above_zero("contextual_embedding_dim")?,
            scaling_seqlen: above_zero("scaling_seqlen")?,
            embedding_backend: args.get("embedding_backend")?,
            disable_contextual_mask: args.or("disable_contextual_mask", false)?,
            backbone: args.one_of("backbone", &BACKBONES)?.unwrap_or(Backbone::Hstu),
            transformer_ffn_dim: args.get("transformer_ffn_dim")?,
        })
    }
}
