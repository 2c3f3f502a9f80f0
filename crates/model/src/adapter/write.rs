//! An adapter into a folder, as PEFT writes it.
//!
//! Of the kinds that PEFT knows it reads the folder; of others a field of Terrace's own says what
//! it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::{Map, Value, json};

use super::Adapter;
use super::adapter_branch::AdapterBranch;
use super::adapter_config::KIND_FIELD;
use super::branched_product::BranchedProduct;
use super::lora_kind::LoraKind;
use super::peft_names::{BranchNames, CONFIG_FILE, WEIGHTS_FILE};
use crate::error::Error;
use crate::new_folder::NewFolder;

impl Adapter {
    /// Writes a folder that is not there yet, whole or not at all.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let new = NewFolder::create(folder)?;
        write_file(&new.path().join(CONFIG_FILE), self.config().as_bytes())?;
        write_file(&new.path().join(WEIGHTS_FILE), &self.tensors())?;
        new.finish()
    }

    /// The text of `adapter_config.json`.
    fn config(&self) -> String {
        let first = self.branches.values().next().expect("an adapter has a branch");
        let others = |differs: &dyn Fn(&AdapterBranch) -> Option<Value>| -> Map<String, Value> {
            let own = |(product, branch): (&BranchedProduct, &AdapterBranch)| {
                Some((product.to_string(), differs(branch)?))
            };
            self.branches.iter().filter_map(own).collect()
        };
        let ranks = others(&|it| (it.rank != first.rank).then(|| json!(it.rank)));
        let alphas = others(&|it| (it.alpha != first.alpha).then(|| number(it.alpha)));
        let mut config = json!({
            "alpha_pattern": alphas,
            "base_model_name_or_path": self.base_model,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": true,
            "lora_alpha": number(first.alpha),
            "lora_dropout": 0.0,
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": first.rank,
            "rank_pattern": ranks,
            "target_modules": self.target_modules(),
            "task_type": "CAUSAL_LM",
            "use_dora": self.kind == LoraKind::Dora,
            "use_rslora": false,
        });
        if self.kind == LoraKind::RmsNorm {
            config[KIND_FIELD] = json!(self.kind.name());
        }
        format!("{config:#}\n")
    }

    /// The names that layers share where all of them have the branch, else whole ones.
    fn target_modules(&self) -> BTreeSet<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for product in self.branches.keys() {
            *counts.entry(product.short_name()).or_default() += 1;
        }
        let name = |product: &BranchedProduct| match product {
            BranchedProduct::Layer(..) if counts[product.short_name()] < self.layers => {
                product.to_string()
            }
            _ => product.short_name().to_owned(),
        };
        self.branches.keys().map(name).collect()
    }

    /// The bytes of `adapter_model.safetensors`.
    fn tensors(&self) -> Vec<u8> {
        let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        for (product, branch) in &self.branches {
            let AdapterBranch { rank, a, b, vector, .. } = branch;
            let names = BranchNames::of(*product, self.kind);
            tensors.push((names.a, vec![*rank, a.len() / rank], bytes(a)));
            tensors.push((names.b, vec![b.len() / rank, *rank], bytes(b)));
            if let (Some(name), Some(numbers)) = (names.vector, vector.numbers()) {
                tensors.push((name, vec![numbers.len()], bytes(numbers)));
            }
        }
        let views = tensors.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
            (name, view.expect("the bytes are the shape's"))
        });
        let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        serialize(views, Some(about)).expect("names and lengths fit a header")
    }
}

/// Whole ones as PEFT types them.
fn number(alpha: f64) -> Value {
    match alpha.fract() == 0.0 && alpha.abs() < 1e15 {
        true => json!(alpha as i64),
        false => json!(alpha),
    }
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|source| Error::Write { path: path.into(), source })
}
