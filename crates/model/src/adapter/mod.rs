//! Branches of low rank that change what a decoder's products compute (LoRA), as PEFT keeps them.
//!
//! An [`Adapter`] is a folder's content in memory: for some products two matrices, and with the
//! kinds that have one a vector. It knows no device. Where a product's weights are plain numbers
//! the branch becomes a part of them while they are placed; beside others it is computed.

mod adapter_branch;
mod adapter_config;
mod adapter_hash;
mod branched_product;
mod config_fields;
mod lora_kind;
mod merge;
mod module_choice;
mod open;
mod peft_names;
mod row_order;
mod write;

use std::collections::BTreeMap;

pub use adapter_branch::{AdapterBranch, BranchVector};
pub use adapter_hash::AdapterHash;
pub use branched_product::{BranchedProduct, LayerProduct};
pub use lora_kind::LoraKind;
pub(crate) use merge::{merge, merges_into};

use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use row_order::RowOrder;

/// Of the norm that branches of [`LoraKind::RmsNorm`] go through.
pub const LORA_NORM_EPS: f32 = 1e-8;

/// The branches of one decoder, all of one kind, at least one. Their rows are in the order of
/// PEFT's files.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// The folder's name, or another for messages.
    name: String,
    /// The model that it was trained on, as PEFT names it.
    base_model: Option<String>,
    /// Of the decoder.
    layers: usize,
    kind: LoraKind,
    branches: BTreeMap<BranchedProduct, AdapterBranch>,
}

impl Adapter {
    /// Of branches whose rows are in the decoder's own order.
    pub fn new(
        name: String,
        base_model: Option<String>,
        spec: &DecoderSpec,
        branches: impl IntoIterator<Item = (BranchedProduct, AdapterBranch)>,
    ) -> Result<Self, Error> {
        let in_files = branches.into_iter().map(|(product, branch)| {
            let order = RowOrder::of(product, spec);
            (product, order.to_files(branch))
        });
        Self::of_files(name, base_model, spec, in_files.collect())
    }

    /// Of branches whose rows are in the order of PEFT's files.
    fn of_files(
        name: String,
        base_model: Option<String>,
        spec: &DecoderSpec,
        branches: BTreeMap<BranchedProduct, AdapterBranch>,
    ) -> Result<Self, Error> {
        let Some(first) = branches.values().next() else {
            return Err(Error::adapter(&name, "it has no branch"));
        };
        let (kind, layers) = (first.vector.kind(), spec.layers.len());
        if let Some((product, _)) = branches.iter().find(|(_, other)| other.vector.kind() != kind) {
            return Err(Error::adapter(&name, format!("{product} is of another kind of branch")));
        }
        let adapter = Adapter { name, base_model, layers, kind, branches };
        adapter.check(spec)?;
        Ok(adapter)
    }

    /// Refuses branches that are not of this decoder's shapes.
    pub fn check(&self, spec: &DecoderSpec) -> Result<(), Error> {
        let refuse = |problem: String| Err(Error::adapter(&self.name, problem));
        if self.layers != spec.layers.len() {
            let (own, found) = (self.layers, spec.layers.len());
            return refuse(format!("it is for {own} layers, this model has {found}"));
        }
        for (product, branch) in &self.branches {
            let Some(shape) = product.shape(spec) else {
                return refuse(format!("this model has no {product}"));
            };
            branch.check(shape).or_else(|problem| refuse(format!("{product}: {problem}")))?;
        }
        Ok(())
    }

    /// The folder's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The model that it was trained on, as PEFT names it.
    pub fn base_model(&self) -> Option<&str> {
        self.base_model.as_deref()
    }

    pub fn kind(&self) -> LoraKind {
        self.kind
    }

    /// The products that have a branch, in the decoder's order.
    pub fn products(&self) -> impl ExactSizeIterator<Item = BranchedProduct> {
        self.branches.keys().copied()
    }

    pub fn hash(&self) -> AdapterHash {
        AdapterHash::of(self.kind, &self.branches)
    }

    /// The branch of a product, its rows in the decoder's order.
    pub(crate) fn branch_of(
        &self,
        product: BranchedProduct,
        spec: &DecoderSpec,
    ) -> Option<AdapterBranch> {
        let branch = self.branches.get(&product)?.clone();
        Some(RowOrder::of(product, spec).to_model(branch))
    }
}
