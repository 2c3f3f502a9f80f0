//! What `adapter_config.json` says: which products have a branch, and of which rank and scale.

use serde_json::{Map, Value};

use super::branched_product::BranchedProduct;
use super::config_fields::{check_initialisation, check_unused};
use super::lora_kind::LoraKind;
use super::module_choice::{ModuleChoice, ModuleNumbers};
use crate::decoder_spec::DecoderSpec;

/// Where a kind that PEFT has not stands.
pub const KIND_FIELD: &str = "terrace_lora_kind";

pub struct AdapterConfig {
    pub kind: LoraKind,
    pub base_model: Option<String>,
    rank: usize,
    alpha: f64,
    /// The scale is `alpha / sqrt(rank)`.
    is_rank_stabilised: bool,
    ranks: ModuleNumbers,
    alphas: ModuleNumbers,
    targets: ModuleChoice,
    excluded: Option<ModuleChoice>,
    /// All of them where it is not set.
    layers: Option<Vec<usize>>,
}

/// Widest branch that anybody trains is far below; a larger number is a broken file.
const MOST_RANK: usize = 1 << 16;

impl AdapterConfig {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut fields: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut take = |name: &str| fields.shift_remove(name).filter(|value| !value.is_null());
        match take("peft_type") {
            Some(Value::String(kind)) if kind == "LORA" => {}
            Some(other) => return Err(format!("peft_type is {other}; only \"LORA\" is supported")),
            None => return Err("it has no peft_type".to_owned()),
        }
        check_initialisation(take("init_lora_weights").as_ref())?;
        check_layers_pattern(take("layers_pattern").as_ref())?;
        let is_dora = flag("use_dora", take("use_dora").as_ref())?;
        let config = AdapterConfig {
            kind: kind(is_dora, take(KIND_FIELD).as_ref())?,
            base_model: take("base_model_name_or_path")
                .and_then(|name| name.as_str().map(str::to_owned)),
            rank: rank("r", take("r").as_ref().and_then(Value::as_f64))?,
            alpha: take("lora_alpha")
                .and_then(|alpha| alpha.as_f64())
                .ok_or("lora_alpha is no number, or not there")?,
            is_rank_stabilised: flag("use_rslora", take("use_rslora").as_ref())?,
            ranks: ModuleNumbers::read("rank_pattern", take("rank_pattern").as_ref())?,
            alphas: ModuleNumbers::read("alpha_pattern", take("alpha_pattern").as_ref())?,
            targets: ModuleChoice::read("target_modules", take("target_modules").as_ref())?
                .ok_or("it has no target_modules")?,
            excluded: ModuleChoice::read("exclude_modules", take("exclude_modules").as_ref())?,
            layers: layers(take("layers_to_transform").as_ref())?,
        };
        for number in config.ranks.numbers() {
            rank("rank_pattern", Some(number))?;
        }
        check_unused(&fields)?;
        Ok(config)
    }

    /// The products that must have a branch.
    pub fn products(&self, spec: &DecoderSpec) -> Result<Vec<BranchedProduct>, String> {
        let all: Vec<(BranchedProduct, String)> =
            BranchedProduct::all(spec).map(|product| (product, product.to_string())).collect();
        if let Some(name) = self.targets.unknown_name(all.iter().map(|(_, name)| name.as_str())) {
            return Err(format!(
                "target_modules names {name:?}, but this model has no such product that an \
                 adapter could change: they are q_proj, k_proj, v_proj, o_proj, gate_proj, \
                 up_proj and down_proj of its {} layers, and lm_head",
                spec.layers.len()
            ));
        }
        let chosen = all.into_iter().filter(|(product, name)| self.means(*product, name));
        let chosen: Vec<BranchedProduct> = chosen.map(|(product, _)| product).collect();
        match chosen.is_empty() {
            true => Err("target_modules means no product of this model".to_owned()),
            false => Ok(chosen),
        }
    }

    /// Rank and alpha, so that `alpha / rank` is the scale.
    pub fn rank_and_alpha(&self, product: BranchedProduct) -> (usize, f64) {
        let name = product.to_string();
        let rank = self.ranks.of(&name).map_or(self.rank, |rank| rank as usize);
        let alpha = self.alphas.of(&name).unwrap_or(self.alpha);
        (rank, if self.is_rank_stabilised { alpha * (rank as f64).sqrt() } else { alpha })
    }

    fn means(&self, product: BranchedProduct, name: &str) -> bool {
        let is_of_layer = matches!(product, BranchedProduct::Layer(..));
        let is_in_layers = match (&self.layers, product) {
            (None, _) => true,
            (Some(layers), BranchedProduct::Layer(layer, _)) => layers.contains(&layer),
            (Some(_), BranchedProduct::Head) => false,
        };
        let is_excluded =
            self.excluded.as_ref().is_some_and(|excluded| excluded.means(name, is_of_layer));
        is_in_layers && !is_excluded && self.targets.means(name, is_of_layer)
    }
}

fn kind(is_dora: bool, own: Option<&Value>) -> Result<LoraKind, String> {
    match (is_dora, own.map(Value::as_str)) {
        (true, None) => Ok(LoraKind::Dora),
        (false, None) => Ok(LoraKind::Default),
        (false, Some(Some("rms_norm"))) => Ok(LoraKind::RmsNorm),
        (true, Some(_)) => Err(format!("use_dora and {KIND_FIELD} exclude each other")),
        (false, Some(_)) => Err(format!("{KIND_FIELD} is not \"rms_norm\"")),
    }
}

fn rank(field: &str, number: Option<f64>) -> Result<usize, String> {
    let is_rank = |number: &f64| number.fract() == 0.0 && (1.0..=MOST_RANK as f64).contains(number);
    match number.filter(is_rank) {
        Some(rank) => Ok(rank as usize),
        None => Err(format!("{field} has no whole number from 1 to {MOST_RANK} as a rank")),
    }
}

fn flag(field: &str, value: Option<&Value>) -> Result<bool, String> {
    match value {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(format!("{field} is {other}, neither true nor false")),
    }
}

/// One layer, or several; none in the list are all.
fn layers(value: Option<&Value>) -> Result<Option<Vec<usize>>, String> {
    let layer = |value: &Value| value.as_u64().map(|layer| layer as usize);
    let layers = match value {
        None => return Ok(None),
        Some(Value::Array(layers)) => layers.iter().map(layer).collect::<Option<Vec<_>>>(),
        Some(one) => layer(one).map(|layer| vec![layer]),
    };
    let layers = layers.ok_or("layers_to_transform has what is no layer's number")?;
    Ok((!layers.is_empty()).then_some(layers))
}

/// Decoders have one list of layers, which must be the one that is meant.
fn check_layers_pattern(value: Option<&Value>) -> Result<(), String> {
    let is_plain = match value {
        None => true,
        Some(Value::String(name)) => name.is_empty() || name == "layers",
        Some(Value::Array(names)) => names.iter().all(|name| name == "layers"),
        Some(_) => false,
    };
    match is_plain {
        true => Ok(()),
        false => Err("layers_pattern is not \"layers\", as this model's are called".to_owned()),
    }
}
