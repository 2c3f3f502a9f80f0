//! Where LitGPT keeps the arrays that are trained: queries, keys and values are rows of one.

use std::ops::Range;

use super::litgpt_model::LitGptConfig;
use crate::model::{LoraTargets, ParameterInfo, Training};

/// Some rows of an array, or numbers of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LitGptRows {
    pub name: String,
    pub rows: Range<usize>,
}

pub(super) struct LitGptNames<'a> {
    pub config: &'a LitGptConfig,
    pub training: Training,
}

impl LitGptNames<'_> {
    pub fn rows_of(&self, info: &ParameterInfo) -> LitGptRows {
        let whole = |name: String| LitGptRows { name, rows: 0..info.shape[0] };
        let (product, array) = split(&info.name);
        match product {
            "model.embed_tokens" => return whole("transformer.wte.weight".into()),
            "model.norm" => return whole("transformer.ln_f.weight".into()),
            "lm_head" => return whole(format!("lm_head.{array}")),
            _ => {}
        }
        let rest = product.strip_prefix("model.layers.").expect("a layer's array");
        let (layer, part) = rest.split_once('.').expect("a part of a layer");
        let at = |part: &str| format!("transformer.h.{layer}.{part}.{array}");
        match part {
            "input_layernorm" => whole(at("norm_1")),
            "post_attention_layernorm" => whole(at("norm_2")),
            "self_attn.q_norm" => whole(at("attn.norm_q")),
            "self_attn.k_norm" => whole(at("attn.norm_k")),
            "self_attn.o_proj" => whole(at("attn.proj")),
            "mlp.gate_proj" => whole(at("mlp.fc_1")),
            "mlp.up_proj" => whole(at("mlp.fc_2")),
            "mlp.down_proj" => whole(at("mlp.proj")),
            "self_attn.q_proj" => self.stacked(0, at("attn.qkv"), array, info),
            "self_attn.k_proj" => self.stacked(1, at("attn.qkv"), array, info),
            "self_attn.v_proj" => self.stacked(2, at("attn.qkv"), array, info),
            other => unreachable!("a layer has no {other}"),
        }
    }

    /// The `which`-th of queries, keys and values in the array that holds those of them it has.
    fn stacked(&self, which: usize, name: String, array: &str, info: &ParameterInfo) -> LitGptRows {
        let config = self.config;
        let heads = [config.n_head, config.n_query_groups, config.n_query_groups];
        let stacked = match (array, self.training) {
            ("lora_A" | "lora_B", Training::Lora(options)) => {
                let LoraTargets { query, key, value, .. } = options.targets;
                [query, key, value]
            }
            _ => [true; 3],
        };
        let rows = |i: usize| match (stacked[i], array) {
            (false, _) => 0,
            (true, "lora_A") => info.shape[0],
            (true, _) => heads[i] * config.head_size,
        };
        let start: usize = (0..which).map(rows).sum();
        LitGptRows { name, rows: start..start + info.shape[0] }
    }
}

/// The product or norm, and which array of it: a branch's have no `.weight` there.
fn split(name: &str) -> (&str, &str) {
    let name = match name.strip_suffix(".weight") {
        Some(branch) if branch.contains(".lora_") => branch,
        _ => name,
    };
    name.rsplit_once('.').expect("an array of something")
}
