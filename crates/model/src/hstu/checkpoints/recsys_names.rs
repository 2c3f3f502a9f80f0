//! What recsys-examples calls the tensors of its models.

use crate::hstu::hstu_config::UvqkOrder;

/// One tensor in both forms.
#[derive(Debug, PartialEq)]
pub struct RecsysName {
    pub ours: String,
    pub theirs: String,
    /// Whether theirs is `[inputs, outputs]`.
    pub is_across: bool,
}

pub const POSITIONS: &str =
    "_hstu_block._preprocessor._positional_encoder._position_embeddings_weight";
/// Before the block had a preprocessor.
pub const POSITIONS_OF_OLD: &str = "_hstu_block._positional_encoder._position_embeddings_weight";
/// Static tables: NAME.weight, or NAME/NAME/..._weights for all in one.
pub const STATIC_TABLES: &str =
    "_embedding_collection._data_parallel_embedding_collection.embeddings.";
/// The folder of dynamic tables, by the path of their module.
pub const DYNAMIC_TABLES: &str =
    "dynamicemb_module/model._embedding_collection._model_parallel_embedding_collection";
pub const DENSE_FOLDER: &str = "torch_module";
pub const HEAD: RecsysMlp = RecsysMlp { ours: "head", theirs: "_mlp._mlp" };

/// The parts of an mlp have a function between them, so that theirs are numbered by twos.
#[derive(Clone, Copy)]
pub struct RecsysMlp {
    pub ours: &'static str,
    pub theirs: &'static str,
}

/// What rows of items and of the context go through.
pub const STREAM_MLPS: [RecsysMlp; 2] = [
    RecsysMlp { ours: "item_mlp", theirs: "_hstu_block._preprocessor._item_mlp._mlp" },
    RecsysMlp { ours: "contextual_mlp", theirs: "_hstu_block._preprocessor._contextual_mlp._mlp" },
];

impl RecsysMlp {
    pub fn name(self, layer: usize, part: &str) -> RecsysName {
        RecsysName {
            ours: format!("{}.{layer}.{part}", self.ours),
            theirs: format!("{}.{}.{part}", self.theirs, 2 * layer),
            is_across: false,
        }
    }
}

/// How a layer keeps its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerForm {
    /// FUSED: parameters of the layer, `[inputs, outputs]`, the projection blocked.
    Fused,
    /// NATIVE: linear modules, the projection head by head, so that GPUs can share the heads.
    Native,
    /// DEBUG: the same, but for the output norm.
    Debug,
}

impl LayerForm {
    /// The form that has the projection's outputs in a given order.
    pub fn of(layout: UvqkOrder) -> Self {
        match layout {
            UvqkOrder::Blocked => LayerForm::Fused,
            UvqkOrder::PerHead => LayerForm::Native,
        }
    }

    pub fn layout(self) -> UvqkOrder {
        match self {
            LayerForm::Fused => UvqkOrder::Blocked,
            LayerForm::Native | LayerForm::Debug => UvqkOrder::PerHead,
        }
    }

    /// The form whose names a checkpoint has.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let forms = [LayerForm::Fused, LayerForm::Native, LayerForm::Debug];
        forms.into_iter().find(|form| form.layer(0).iter().all(|name| has(&name.theirs)))
    }

    /// All tensors of a layer.
    pub fn layer(self, layer: usize) -> [RecsysName; 7] {
        let parts: [(&str, &str, bool); 7] = match self {
            LayerForm::Fused => [
                ("input_norm.weight", "_input_layernorm_weight", false),
                ("input_norm.bias", "_input_layernorm_bias", false),
                ("uvqk.weight", "_linear_uvqk_weight", true),
                ("uvqk.bias", "_linear_uvqk_bias", false),
                ("output_norm.weight", "_output_layernorm_weight", false),
                ("output_norm.bias", "_output_layernorm_bias", false),
                ("output.weight", "_linear_proj_weight", true),
            ],
            LayerForm::Native => [
                ("input_norm.weight", "_input_layernorm_weight", false),
                ("input_norm.bias", "_input_layernorm_bias", false),
                ("uvqk.weight", "_linear_uvqk.weight", false),
                ("uvqk.bias", "_linear_uvqk.bias", false),
                ("output_norm.weight", "_output_ln_dropout_mul.weight", false),
                ("output_norm.bias", "_output_ln_dropout_mul.bias", false),
                ("output.weight", "_linear_proj.weight", false),
            ],
            LayerForm::Debug => [
                ("input_norm.weight", "_input_layernorm_weight", false),
                ("input_norm.bias", "_input_layernorm_bias", false),
                ("uvqk.weight", "_linear_uvqk.weight", false),
                ("uvqk.bias", "_linear_uvqk.bias", false),
                ("output_norm.weight", "_output_layernorm_weight", false),
                ("output_norm.bias", "_output_layernorm_bias", false),
                ("output.weight", "_linear_proj.weight", false),
            ],
        };
        parts.map(|(ours, theirs, is_across)| RecsysName {
            ours: format!("layers.{layer}.{ours}"),
            theirs: format!("_hstu_block._attention_layers.{layer}.{theirs}"),
            is_across,
        })
    }
}
