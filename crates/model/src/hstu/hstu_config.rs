//! The `config.json` of an HSTU model.

use serde::{Deserialize, Serialize};
use terrace_kernels::{GatedForm, NormExtent, Pointwise};

use super::hstu_layer_spec::HstuLayerSpec;
use super::layer_tensors::UvqkLayout;
use super::token_layout::TokenLayout;
use crate::error::Error;

/// Keys that are not known are refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HstuConfig {
    pub model_type: HstuModelType,
    pub task: HstuTask,
    pub variant: HstuVariant,
    pub num_layers: usize,
    pub hidden_size: usize,
    pub num_attention_heads: usize,
    /// Of queries, keys and values.
    pub head_dim: usize,
    /// Of values and gates, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_dim: Option<usize>,
    /// The variant's own unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_eps: Option<f32>,
    /// What sums over keys are divided by.
    pub scaling_seqlen: usize,
    /// The longest history, in tokens: context, items and actions.
    pub max_history_tokens: usize,
    pub max_candidates: usize,
    /// Tables of the context's features, in their order.
    #[serde(default)]
    pub contextual_features: Vec<String>,
    pub item_feature: String,
    /// Absent where the model looks at items alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_feature: Option<String>,
    /// Numbers of the rows of items and actions, where these go through an mlp of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_embedding_dim: Option<usize>,
    /// The same of the context's features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contextual_embedding_dim: Option<usize>,
    /// What embedding rows are multiplied by; the square root of the hidden size unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding_scale: Option<f32>,
    #[serde(default)]
    pub uvqk_layout: UvqkOrder,
    /// Of STU layers: a norm for each head, with one weight and one bias each.
    #[serde(default)]
    pub group_norm: bool,
    /// Of sequential layers: the output projection sees U, the normed sums and both together.
    #[serde(default)]
    pub concat_ua: bool,
    /// How retrieval compares a query with items; the variant's own unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_similarity: Option<Similarity>,
    #[serde(default)]
    pub prediction_head_activation: HeadActivation,
    /// Scores of a candidate: independent probabilities, or one of several classes if it is 1.
    #[serde(default = "one")]
    pub num_tasks: usize,
}

fn one() -> usize {
    1
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HstuModelType {
    Hstu,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HstuTask {
    Ranking,
    Retrieval,
}

/// Whose layers they are.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HstuVariant {
    /// recsys-examples
    Nvidia,
    /// generative-recommenders' STU
    Stu,
    /// generative-recommenders' research models
    Sequential,
}

impl HstuVariant {
    pub(super) fn name(self) -> &'static str {
        match self {
            HstuVariant::Nvidia => "nvidia",
            HstuVariant::Stu => "stu",
            HstuVariant::Sequential => "sequential",
        }
    }
}

/// How the outputs of the projection are ordered in the file.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UvqkOrder {
    #[default]
    Blocked,
    PerHead,
}

/// What a query's score of an item is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Similarity {
    /// Their product.
    Dot,
    /// Their product with the item's row divided by its length.
    Cosine,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadActivation {
    #[default]
    Relu,
    Gelu,
}

/// No real model has more of anything than this; a larger number is a broken file.
const MAX_COUNT: usize = 1 << 24;

impl HstuConfig {
    /// A small model that ranks by items alone.
    pub fn ranking(item_feature: &str) -> Self {
        HstuConfig {
            model_type: HstuModelType::Hstu,
            task: HstuTask::Ranking,
            variant: HstuVariant::Nvidia,
            num_layers: 1,
            hidden_size: 64,
            num_attention_heads: 1,
            head_dim: 64,
            value_dim: None,
            norm_eps: None,
            scaling_seqlen: 64,
            max_history_tokens: 64,
            max_candidates: 64,
            contextual_features: Vec::new(),
            item_feature: item_feature.to_owned(),
            action_feature: None,
            item_embedding_dim: None,
            contextual_embedding_dim: None,
            embedding_scale: None,
            uvqk_layout: UvqkOrder::default(),
            group_norm: false,
            concat_ua: false,
            item_similarity: None,
            prediction_head_activation: HeadActivation::default(),
            num_tasks: one(),
        }
    }

    pub fn from_json(text: &str) -> Result<Self, Error> {
        let config: HstuConfig =
            serde_json::from_str(text).map_err(|error| Error::Config(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// As a `config.json` has it.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain values");
        text + "\n"
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let counts = [
            ("num_layers", self.num_layers),
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", self.num_attention_heads),
            ("head_dim", self.head_dim),
            ("value_dim", self.value_dim.unwrap_or(1)),
            ("item_embedding_dim", self.item_embedding_dim.unwrap_or(1)),
            ("contextual_embedding_dim", self.contextual_embedding_dim.unwrap_or(1)),
            ("scaling_seqlen", self.scaling_seqlen),
            ("max_history_tokens", self.max_history_tokens),
            ("max_candidates", self.max_candidates),
            ("num_tasks", self.num_tasks),
        ];
        for (key, count) in counts {
            if !(1..=MAX_COUNT).contains(&count) {
                return Err(Error::Config(format!(
                    "{key} is {count}, not one of 1 to {MAX_COUNT}"
                )));
            }
        }
        for (key, is_set, variant) in [
            ("group_norm", self.group_norm, HstuVariant::Stu),
            ("concat_ua", self.concat_ua, HstuVariant::Sequential),
        ] {
            if is_set && self.variant != variant {
                let (own, found) = (variant.name(), self.variant.name());
                let problem = format!("{key} is for the variant {own}; this one is {found}");
                return Err(Error::Config(problem));
            }
        }
        if self.task == HstuTask::Retrieval && self.item_embedding_dim.is_some() {
            let problem = "retrieval compares queries with items' rows, which are as wide as the \
                           model: there is no item_embedding_dim";
            return Err(Error::Config(problem.into()));
        }
        if self.variant == HstuVariant::Sequential {
            self.check_sequential()?;
        }
        let layout = self.token_layout();
        let (most, least) = (self.max_history_tokens, layout.context + layout.item_tokens());
        if most < least {
            let problem = format!("max_history_tokens is {most}; context and an item are {least}");
            return Err(Error::Config(problem));
        }
        Ok(())
    }

    /// A row looks at the time of the item after it: nothing stands between items.
    fn check_sequential(&self) -> Result<(), Error> {
        let problem = if self.task == HstuTask::Ranking {
            "models of the variant sequential do not rank candidates: they retrieve"
        } else if self.action_feature.is_some() || !self.contextual_features.is_empty() {
            "models of the variant sequential have items alone, no context and no actions"
        } else {
            return Ok(());
        };
        Err(Error::Config(problem.into()))
    }

    /// Whether layers look at the times of events.
    pub fn has_times(&self) -> bool {
        self.variant == HstuVariant::Sequential
    }

    pub fn item_similarity(&self) -> Similarity {
        self.item_similarity.unwrap_or(match self.variant {
            HstuVariant::Nvidia | HstuVariant::Stu => Similarity::Dot,
            HstuVariant::Sequential => Similarity::Cosine,
        })
    }

    pub fn token_layout(&self) -> TokenLayout {
        let context = self.contextual_features.len();
        TokenLayout { context, has_actions: self.action_feature.is_some() }
    }

    pub fn layer_spec(&self) -> HstuLayerSpec {
        let (hidden, heads) = (self.hidden_size, self.num_attention_heads);
        let dims = [self.head_dim, self.value_dim.unwrap_or(self.head_dim)];
        let divisor = self.scaling_seqlen as f32;
        let spec = match self.variant {
            HstuVariant::Nvidia => HstuLayerSpec {
                value_dim: dims[1],
                ..HstuLayerSpec::nvidia(hidden, heads, dims[0], divisor)
            },
            HstuVariant::Stu => HstuLayerSpec {
                norm_extent: match self.group_norm {
                    true => NormExtent::EachHead { heads },
                    false => NormExtent::AllHeads,
                },
                ..HstuLayerSpec::stu(hidden, heads, dims, divisor)
            },
            HstuVariant::Sequential => HstuLayerSpec {
                gated: if self.concat_ua { GatedForm::WithNormed } else { GatedForm::Gated },
                ..HstuLayerSpec::sequential(hidden, heads, dims, divisor)
            },
        };
        HstuLayerSpec { eps: self.norm_eps.unwrap_or(spec.eps), ..spec }
    }

    pub fn uvqk_layout(&self) -> UvqkLayout {
        match self.uvqk_layout {
            UvqkOrder::Blocked => UvqkLayout::Blocked,
            UvqkOrder::PerHead => UvqkLayout::PerHead,
        }
    }

    pub fn head_activation(&self) -> Pointwise {
        match self.prediction_head_activation {
            HeadActivation::Relu => Pointwise::Relu,
            HeadActivation::Gelu => Pointwise::Gelu,
        }
    }

    pub fn embedding_scale(&self) -> f32 {
        self.embedding_scale.unwrap_or((self.hidden_size as f32).sqrt())
    }

    /// Names of all tables, of the context, of items, of actions, and how wide their rows are.
    pub fn tables(&self) -> impl Iterator<Item = (&str, usize)> {
        let [of_context, of_items] = [self.contextual_embedding_dim, self.item_embedding_dim]
            .map(|dim| dim.unwrap_or(self.hidden_size));
        let context = self.contextual_features.iter().map(move |name| (name.as_str(), of_context));
        let items = [self.item_feature.as_str()].into_iter().chain(self.action_feature.as_deref());
        context.chain(items.map(move |name| (name, of_items)))
    }

    /// Whether rows of items or of the context go through an mlp.
    pub fn has_streams(&self) -> bool {
        self.item_embedding_dim.is_some() || self.contextual_embedding_dim.is_some()
    }
}
