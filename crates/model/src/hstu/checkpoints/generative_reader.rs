//! A checkpoint of generative-recommenders' research models, as its gin file describes it.
//!
//! Its DLRMv3 models (STU layers) are not read: they count positions backwards from the first
//! candidate, project each feature and multiply with an item tower, none of which is computed here.

use std::collections::BTreeMap;
use std::path::Path;

use super::checkpoint_tensor::CheckpointTensor;
use super::generative_names::{ITEMS, MASK, POSITIONS, STU_LAYER, layer};
use super::hstu_checkpoint::HstuCheckpoint;
use super::state_dict::StateDict;
use crate::error::Error;
use crate::gin::{GinArgs, GinClass, GinConfig, GinError};
use crate::hstu::hstu_config::{
    HstuConfig, HstuModelType, HstuTask, HstuVariant, Similarity, UvqkOrder,
};

/// What of a gin file matters at inference.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerativeArgs {
    pub num_blocks: usize,
    pub num_heads: usize,
    pub dqk: usize,
    pub dv: usize,
    pub concat_ua: bool,
    pub max_sequence_length: usize,
    pub item_embedding_dim: usize,
    pub item_l2_norm: bool,
}

const ENCODER: GinClass = GinClass {
    name: "hstu_encoder",
    params: &[
        "num_blocks",
        "num_heads",
        "dqk",
        "dv",
        "linear_dropout_rate",
        "attn_dropout_rate",
        "normalization",
        "linear_config",
        "linear_activation",
        "concat_ua",
        "enable_relative_attention_bias",
    ],
};

/// Those that act at inference; all others are about training.
const TRAIN: GinClass = GinClass {
    name: "train_fn",
    params: &[
        "main_module",
        "user_embedding_norm",
        "interaction_module_type",
        "embedding_module_type",
        "max_sequence_length",
        "item_embedding_dim",
        "item_l2_norm",
    ],
};

const ITEM_FEATURE: &str = "item";

impl GenerativeArgs {
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::read(&GinConfig::open(path)?)
    }

    pub fn read(config: &GinConfig) -> Result<Self, Error> {
        let encoders = config.unknown_keys(&[&ENCODER]).into_iter();
        let unknown = encoders.filter(|key| key.key.starts_with(ENCODER.name));
        let unknown: Vec<String> = unknown.map(|key| key.to_string()).collect();
        if !unknown.is_empty() {
            return Err(GinError::Unknown(unknown).into());
        }
        let (train, encoder) =
            (GinArgs::new(config, "", &TRAIN), GinArgs::new(config, "", &ENCODER));
        for (args, class, param, default, wanted) in [
            (&train, &TRAIN, "main_module", "SASRec", "HSTU"),
            (&train, &TRAIN, "user_embedding_norm", "l2_norm", "l2_norm"),
            (&train, &TRAIN, "interaction_module_type", "DotProduct", "DotProduct"),
            (&train, &TRAIN, "embedding_module_type", "local", "local"),
            (&encoder, &ENCODER, "normalization", "rel_bias", "rel_bias"),
            (&encoder, &ENCODER, "linear_config", "uvqk", "uvqk"),
            (&encoder, &ENCODER, "linear_activation", "silu", "silu"),
        ] {
            let found: String = args.or(param, default.to_owned())?;
            if found != wanted {
                let class = class.name;
                let problem =
                    format!("{class}.{param} is {found:?}; models of {wanted:?} are computed");
                return Err(Error::Unsupported(problem));
            }
        }
        if !encoder.or("enable_relative_attention_bias", true)? {
            let problem = "hstu_encoder.enable_relative_attention_bias is False; models with it \
                           are computed";
            return Err(Error::Unsupported(problem.into()));
        }
        Ok(GenerativeArgs {
            num_blocks: encoder.or("num_blocks", 2)?,
            num_heads: encoder.or("num_heads", 1)?,
            dqk: encoder.or("dqk", 64)?,
            dv: encoder.or("dv", 64)?,
            concat_ua: encoder.or("concat_ua", false)?,
            max_sequence_length: train.or("max_sequence_length", 200)?,
            item_embedding_dim: train.or("item_embedding_dim", 240)?,
            item_l2_norm: train.or("item_l2_norm", false)?,
        })
    }

    /// `positions` is the width that sums are divided by, the padded length of the original's
    /// sequences; `items` how many rows the table of items has.
    fn hstu_config(&self, positions: usize, items: usize) -> Result<HstuConfig, Error> {
        let config = HstuConfig {
            model_type: HstuModelType::Hstu,
            task: HstuTask::Retrieval,
            variant: HstuVariant::Sequential,
            num_layers: self.num_blocks,
            hidden_size: self.item_embedding_dim,
            num_attention_heads: self.num_heads,
            head_dim: self.dqk,
            value_dim: (self.dv != self.dqk).then_some(self.dv),
            scaling_seqlen: positions,
            max_history_tokens: self.max_sequence_length.min(positions),
            max_candidates: items,
            concat_ua: self.concat_ua,
            item_similarity: (!self.item_l2_norm).then_some(Similarity::Dot),
            uvqk_layout: UvqkOrder::Blocked,
            ..HstuConfig::ranking(ITEM_FEATURE)
        };
        config.check()?;
        Ok(config)
    }
}

impl HstuCheckpoint {
    /// A `.ckpt` or `.pt` file.
    pub fn from_generative(args: &GenerativeArgs, path: &Path) -> Result<Self, Error> {
        let mut state = StateDict::open(path)?;
        if let Some(name) = state.names().find(|name| name.contains(STU_LAYER)) {
            let problem = format!(
                "{} has {name}, so it is a model of DLRMv3: it counts positions backwards from the \
                 first candidate and has an item tower, which are not computed here",
                path.display()
            );
            return Err(Error::Unsupported(problem));
        }
        state.ignore(|name| name.ends_with(MASK));
        let bias = layer(0)[3].theirs.clone();
        let length = match state.shape(&bias) {
            Some(&[numbers]) if numbers % 2 == 1 => numbers.div_ceil(2),
            found => {
                let problem = format!("tensor {bias:?} has shape {found:?}, not 2 n - 1 numbers");
                return Err(state.malformed(problem));
            }
        };
        let items = state.take(ITEMS)?;
        let &[rows, dim] = &items.shape[..] else {
            return Err(state.malformed(format!("tensor {ITEMS:?} has shape {:?}", items.shape)));
        };
        if dim != args.item_embedding_dim {
            let wanted = args.item_embedding_dim;
            let problem =
                format!("tensor {ITEMS:?} is {dim} wide, train_fn.item_embedding_dim is {wanted}");
            return Err(state.malformed(problem));
        }
        let config = args.hstu_config(length, rows)?;
        let mut tensors = BTreeMap::new();
        tensors.insert(format!("embeddings.{ITEM_FEATURE}.weight"), items);
        tensors.insert("positions.weight".to_owned(), state.take(POSITIONS)?);
        for at in 0..config.num_layers {
            take_layer(&mut state, &config, at, &mut tensors)?;
        }
        let files = vec![state.map().clone()];
        state.finish()?;
        Ok(HstuCheckpoint { config, tensors, files })
    }
}

fn take_layer(
    state: &mut StateDict,
    config: &HstuConfig,
    at: usize,
    tensors: &mut BTreeMap<String, CheckpointTensor>,
) -> Result<(), Error> {
    let spec = config.layer_spec();
    let shapes = [
        Some(vec![spec.hidden, spec.uvqk_width()]),
        Some(vec![spec.hidden, spec.gated_width()]),
        Some(vec![spec.hidden]),
        Some(vec![2 * config.scaling_seqlen - 1]),
        // As many buckets of time as there are.
        None,
    ];
    for (name, shape) in layer(at).into_iter().zip(shapes) {
        let tensor = match shape {
            Some(shape) => state.take_shaped(&name.theirs, &shape)?,
            None => state.take(&name.theirs)?,
        };
        tensors.insert(name.ours, if name.is_across { tensor.transposed()? } else { tensor });
    }
    Ok(())
}
