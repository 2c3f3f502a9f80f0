//! What generative-recommenders calls the tensors of its research models.

pub const ITEMS: &str = "_embedding_module._item_emb.weight";
pub const POSITIONS: &str = "_input_features_preproc._pos_emb.weight";
/// A mask that older versions kept beside the weights.
pub const MASK: &str = "_attn_mask";
/// Layers of DLRMv3, whose models have parts that have no place here.
pub const STU_LAYER: &str = "_stu_layers.";

/// One tensor of a layer in both forms.
pub struct GenerativeName {
    pub ours: String,
    pub theirs: String,
    /// Whether theirs is `[inputs, outputs]`.
    pub is_across: bool,
}

pub fn layer(layer: usize) -> [GenerativeName; 5] {
    [
        ("uvqk.weight", "_uvqk", true),
        ("output.weight", "_o.weight", false),
        ("output.bias", "_o.bias", false),
        ("position_bias", "_rel_attn_bias._pos_w", false),
        ("time_bias", "_rel_attn_bias._ts_w", false),
    ]
    .map(|(ours, theirs, is_across)| GenerativeName {
        ours: format!("layers.{layer}.{ours}"),
        theirs: format!("_hstu._attention_layers.{layer}.{theirs}"),
        is_across,
    })
}
