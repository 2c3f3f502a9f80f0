//! An adapter from its folder: what the configuration asks for must be there, and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Adapter;
use super::adapter_branch::{AdapterBranch, BranchVector};
use super::adapter_config::AdapterConfig;
use super::branched_product::BranchedProduct;
use super::peft_names::{BranchNames, CONFIG_FILE, WEIGHTS_FILE};
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::files::{name_of, read_text};
use crate::weights::Weights;

impl Adapter {
    /// Reads a folder that PEFT or [`Adapter::write`] wrote, for this decoder.
    pub fn open(folder: &Path, spec: &DecoderSpec) -> Result<Self, Error> {
        let path = folder.join(CONFIG_FILE);
        let malformed = |problem| Error::Malformed { path: path.clone(), problem };
        let config = AdapterConfig::parse(&read_text(&path)?).map_err(malformed)?;
        let products = config.products(spec).map_err(malformed)?;
        let path = folder.join(WEIGHTS_FILE);
        let weights = Weights::open_safetensors_file(&path)?;
        let mut reader = Reader { path, spec, config, weights, used: BTreeSet::new() };
        let branch = |product| Ok((product, reader.branch(product)?));
        let branches = products.into_iter().map(branch).collect::<Result<_, Error>>()?;
        reader.check_unused()?;
        Self::of_files(name_of(folder), reader.config.base_model, spec, branches)
    }
}

struct Reader<'a> {
    path: PathBuf,
    spec: &'a DecoderSpec,
    config: AdapterConfig,
    weights: Weights,
    /// Names of the tensors that belong to a branch.
    used: BTreeSet<String>,
}

impl Reader<'_> {
    fn branch(&mut self, product: BranchedProduct) -> Result<AdapterBranch, Error> {
        let [rows, columns] = product.shape(self.spec).expect("it is a product of this decoder");
        let (rank, alpha) = self.config.rank_and_alpha(product);
        let kind = self.config.kind;
        let names = BranchNames::of(product, kind);
        Ok(AdapterBranch {
            rank,
            alpha,
            a: self.numbers(names.a, &[rank, columns])?,
            b: self.numbers(names.b, &[rows, rank])?,
            vector: match names.vector {
                None => BranchVector::None,
                Some(name) => BranchVector::of(kind, self.numbers(name, &[rows])?),
            },
        })
    }

    fn numbers(&mut self, name: String, wanted: &[usize]) -> Result<Vec<f32>, Error> {
        let found = self.weights.info(&name).map(|info| info.shape.clone());
        if let Some(found) = found.filter(|found| found != wanted) {
            let of_base = match &self.config.base_model {
                Some(base) => format!("a model as {base:?}"),
                None => "another model".to_owned(),
            };
            return Err(self.malformed(format!(
                "tensor {name:?} has shape {found:?}, but {wanted:?} is wanted, by the rank in \
                 {CONFIG_FILE} and the shapes of this model: was it trained on {of_base}?"
            )));
        }
        let numbers = self.weights.numbers(&name).map_err(|e| self.malformed(e.to_string()))?;
        if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
            return Err(self.malformed(format!("tensor {name:?} holds {number}")));
        }
        self.used.insert(name);
        Ok(numbers)
    }

    /// What has no use would have changed the result elsewhere.
    fn check_unused(&self) -> Result<(), Error> {
        let Some(name) = self.weights.all_names().find(|name| !self.used.contains(*name)) else {
            return Ok(());
        };
        let remedy = match name.contains(".base_layer.") {
            true => "; save the adapter without the base model's (save_embedding_layers=False)",
            false => "",
        };
        Err(self.malformed(format!(
            "tensor {name:?} belongs to none of the products that {CONFIG_FILE} means in this \
             model of {} layers{remedy}",
            self.spec.layers.len()
        )))
    }

    fn malformed(&self, problem: String) -> Error {
        Error::Malformed { path: self.path.clone(), problem }
    }
}
