//! The model that a gin file describes, as it is computed at inference.

use super::dataset_args::DatasetArgs;
use super::known_datasets::DatasetFeatures;
use super::network_args::{Backbone, NetworkDtype};
use super::{DatasetChoice, RecsysArgs, TaskArgs};
use crate::error::Error;
use crate::hstu::hstu_config::{
    HeadActivation, HstuConfig, HstuModelType, HstuTask, HstuVariant, UvqkOrder,
};
use crate::hstu::token_layout::TokenLayout;
use crate::near_names::near_names;

/// Items that may be asked for of a retrieval model, which the original has no key for.
const RETRIEVED_MOST: usize = 1000;
/// To a multiple of so many tokens the original rounds what it divides sums by.
const SCALING_STEP: usize = 32;
const DEFAULT_EPS: f32 = 1e-5;

impl RecsysArgs {
    pub fn features(&self) -> Result<DatasetFeatures, Error> {
        match &self.dataset {
            DatasetChoice::Named(DatasetArgs { dataset_name, .. }) => {
                DatasetFeatures::of(dataset_name).ok_or_else(|| {
                    let near = near_names(dataset_name, DatasetFeatures::names());
                    let tip = near.first().map(|near| format!("; did you mean {near}?"));
                    let known: Vec<&str> = DatasetFeatures::names().collect();
                    Error::Config(format!(
                        "DatasetArgs.dataset_name {dataset_name:?} is not one of {}{}",
                        known.join(", "),
                        tip.unwrap_or_default()
                    ))
                })
            }
            DatasetChoice::Benchmark(args) => Ok(DatasetFeatures {
                item: args.item_feature_name.clone(),
                contextual: args.contextual_feature_names.clone(),
                action: args.action_feature_name.clone(),
                tables: args.embedding_args.clone(),
            }),
        }
    }

    /// Items of a history, without candidates.
    pub fn max_history_seqlen(&self) -> Result<usize, Error> {
        match &self.dataset {
            DatasetChoice::Named(args) => Ok(args.max_history_seqlen),
            DatasetChoice::Benchmark(args) => args.max_history_seqlen().ok_or_else(|| {
                Error::Config(format!("no FeatureArgs have {:?}", args.item_feature_name))
            }),
        }
    }

    pub fn max_num_candidates(&self) -> usize {
        match &self.dataset {
            DatasetChoice::Named(args) => args.max_num_candidates,
            DatasetChoice::Benchmark(args) => args.max_num_candidates,
        }
    }

    /// The configuration of the model, with the projection's outputs in a given order.
    pub fn hstu_config(&self, uvqk_layout: UvqkOrder) -> Result<HstuConfig, Error> {
        self.check_inference()?;
        let (features, network) = (self.features()?, &self.network);
        let history = self.max_history_seqlen()?;
        let layout = TokenLayout {
            context: features.contextual.len(),
            has_actions: features.action.is_some(),
        };
        let max_history_tokens = layout.history_tokens(history);
        let candidates = match (&self.task, self.max_num_candidates()) {
            (TaskArgs::Retrieval(_), _) => 0,
            (TaskArgs::Ranking(_), 0) => history,
            (TaskArgs::Ranking(_), candidates) => candidates,
        };
        let longest = (max_history_tokens + candidates).next_multiple_of(SCALING_STEP);
        let [item_embedding_dim, contextual_embedding_dim] = self.embedding_dims()?;
        let eps = network.norm_epsilon as f32;
        let config = HstuConfig {
            model_type: HstuModelType::Hstu,
            task: match &self.task {
                TaskArgs::Ranking(_) => HstuTask::Ranking,
                TaskArgs::Retrieval(_) => HstuTask::Retrieval,
            },
            variant: HstuVariant::Nvidia,
            num_layers: network.num_layers,
            hidden_size: network.hidden_size,
            num_attention_heads: network.num_attention_heads,
            head_dim: network.kv_channels,
            value_dim: None,
            norm_eps: (eps != DEFAULT_EPS).then_some(eps),
            scaling_seqlen: network.scaling_seqlen.unwrap_or(longest),
            max_history_tokens,
            max_candidates: match candidates {
                0 => RETRIEVED_MOST,
                candidates => candidates,
            },
            contextual_features: features.contextual,
            item_feature: features.item,
            action_feature: features.action,
            item_embedding_dim,
            contextual_embedding_dim,
            embedding_scale: None,
            uvqk_layout,
            group_norm: false,
            concat_ua: false,
            item_similarity: None,
            prediction_head_activation: match &self.task {
                TaskArgs::Ranking(args) => args.prediction_head_act_type,
                TaskArgs::Retrieval(_) => HeadActivation::default(),
            },
            num_tasks: match &self.task {
                TaskArgs::Ranking(args) => args.num_tasks,
                TaskArgs::Retrieval(_) => 1,
            },
        };
        config.check()?;
        Ok(config)
    }

    /// What a reader should know of a model that was trained so: where inference cannot be quite
    /// what training was.
    pub fn inference_notes(&self) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        if self.network.scaling_seqlen.is_none() {
            let divisor = self.hstu_config(UvqkOrder::Blocked)?.scaling_seqlen;
            notes.push(format!(
                "NetworkArgs.scaling_seqlen is -1, the longest sequence of each batch; sums over \
                 keys are divided by {divisor}, the longest that there can be, in every request"
            ));
        }
        if !self.network.disable_contextual_mask && !self.features()?.contextual.is_empty() {
            notes.push(
                "NetworkArgs.disable_contextual_mask is False: in training tokens of the context \
                 saw the history behind them, at inference they see what is before them alone"
                    .to_owned(),
            );
        }
        Ok(notes)
    }

    /// Refuses what was trained in a way that is not computed here.
    fn check_inference(&self) -> Result<(), Error> {
        let network = &self.network;
        let problem = if network.dtype == NetworkDtype::Float16 {
            "NetworkArgs.dtype_str is float16; models are computed in bfloat16 or float32".into()
        } else if !network.is_causal {
            "NetworkArgs.is_causal is False; what sees later tokens cannot be cached".into()
        } else if network.target_group_size != 1 {
            let size = network.target_group_size;
            format!("NetworkArgs.target_group_size is {size}; a candidate sees no other here")
        } else if network.backbone == Backbone::Transformer {
            "NetworkArgs.backbone is transformer; layers of HSTU are computed here".into()
        } else {
            return Ok(());
        };
        Err(Error::Unsupported(problem))
    }

    /// Widths of the rows of items and of the context, where these go through an mlp. Unless both
    /// are given, the original's rows are as wide as the model.
    fn embedding_dims(&self) -> Result<[Option<usize>; 2], Error> {
        let network = &self.network;
        let dims = [network.item_embedding_dim, network.contextual_embedding_dim];
        let fits = |dim: &Option<usize>| dim.is_none_or(|dim| dim == network.hidden_size);
        if dims.iter().all(Option::is_some) || dims.iter().all(fits) {
            return Ok(dims);
        }
        Err(Error::Config(format!(
            "NetworkArgs has one of item_embedding_dim and contextual_embedding_dim, and it is not \
             {}; rows have a width of their own only where both are given",
            network.hidden_size
        )))
    }
}
