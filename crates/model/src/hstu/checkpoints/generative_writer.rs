//! Writes a model as a checkpoint of generative-recommenders' research models.

use std::path::Path;

use super::checkpoint_tensor::CheckpointTensor;
use super::generative_names::{ITEMS, POSITIONS, layer};
use super::hstu_checkpoint::HstuCheckpoint;
use crate::error::Error;
use crate::hstu::hstu_config::{HstuVariant, Similarity, UvqkOrder};
use crate::torch_file::TorchItem;

impl HstuCheckpoint {
    /// `checkpoint.pt` and `config.gin` into a folder that is there; `progress` gets the bytes
    /// written since its last call.
    pub fn write_generative(
        self,
        folder: &Path,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), Error> {
        let cannot = |what: String| {
            Error::Unsupported(format!("generative-recommenders has no form for {what}"))
        };
        let config = &self.config;
        let spec = config.layer_spec();
        if config.variant != HstuVariant::Sequential {
            let variant = config.variant.name();
            return Err(cannot(format!(
                "a model of the variant {variant}: its research models are sequential, and those \
                 of DLRMv3 have other positions, features and heads"
            )));
        }
        if config.embedding_scale() != (spec.hidden as f32).sqrt() {
            return Err(cannot(format!("embedding_scale {}", config.embedding_scale())));
        }
        if spec.eps != 1e-6 {
            return Err(cannot(format!("norm_eps {}", spec.eps)));
        }
        let checkpoint = self.with_layout(UvqkOrder::Blocked)?;
        let mut left: Vec<&String> = checkpoint.tensors.keys().collect();
        let mut entries: Vec<(String, CheckpointTensor)> = Vec::new();
        let items = format!("embeddings.{}.weight", checkpoint.config.item_feature);
        let plain = [(items, ITEMS), ("positions.weight".to_owned(), POSITIONS)];
        let mut names: Vec<(String, String, bool)> =
            plain.map(|(ours, theirs)| (ours, theirs.to_owned(), false)).into();
        for at in 0..checkpoint.config.num_layers {
            names.extend(layer(at).map(|name| (name.ours, name.theirs, name.is_across)));
        }
        for (ours, theirs, is_across) in names {
            let tensor = checkpoint.tensor(&ours)?;
            let wanted = 2 * checkpoint.config.scaling_seqlen - 1;
            if ours.ends_with("position_bias") && tensor.shape != [wanted] {
                let found = &tensor.shape;
                return Err(cannot(format!(
                    "scaling_seqlen {} with {ours:?} of shape {found:?}: half of that divides",
                    checkpoint.config.scaling_seqlen
                )));
            }
            let tensor = if is_across { tensor.transposed()? } else { tensor.clone() };
            entries.push((theirs, tensor));
            left.retain(|name| **name != ours);
        }
        if let Some(name) = left.first() {
            return Err(cannot(format!("the tensor {name:?}")));
        }
        let state = TorchItem::OrderedDict(
            entries.iter().map(|(name, tensor)| (name.clone(), tensor.as_item())).collect(),
        );
        let saved = TorchItem::Dict(vec![("model_state_dict".to_owned(), state)]);
        saved.write(&folder.join("checkpoint.pt"), progress)?;
        let path = folder.join("config.gin");
        std::fs::write(&path, checkpoint.generative_gin())
            .map_err(|source| Error::Write { path: path.clone(), source })
    }

    fn generative_gin(&self) -> String {
        let (config, spec) = (&self.config, self.config.layer_spec());
        let python = |is: bool| if is { "True" } else { "False" };
        format!(
            "train_fn.main_module = 'HSTU'\n\
             train_fn.max_sequence_length = {}\n\
             train_fn.gr_output_length = {}\n\
             train_fn.item_embedding_dim = {}\n\
             train_fn.user_embedding_norm = 'l2_norm'\n\
             train_fn.interaction_module_type = 'DotProduct'\n\
             train_fn.item_l2_norm = {}\n\n\
             hstu_encoder.num_blocks = {}\n\
             hstu_encoder.num_heads = {}\n\
             hstu_encoder.dqk = {}\n\
             hstu_encoder.dv = {}\n\
             hstu_encoder.concat_ua = {}\n",
            config.max_history_tokens,
            (config.scaling_seqlen - 1).saturating_sub(config.max_history_tokens),
            spec.hidden,
            python(config.item_similarity() == Similarity::Cosine),
            config.num_layers,
            spec.heads,
            spec.key_dim,
            spec.value_dim,
            python(config.concat_ua),
        )
    }
}
