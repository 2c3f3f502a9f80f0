//! The one decoder: embeds tokens, runs its layers, and scores the vocabulary.
//!
//! It is driven by [`DecoderSpec`](crate::DecoderSpec) and knows no family, no policy and no
//! sequence: rows of a batch, and where their keys and values are, is all it sees.

mod buffers;
mod decoder_tensors;
mod forward;
mod layer_rows;
mod placed_adapter;
mod placed_branch;
mod placed_product;
mod placed_weights;

use std::collections::BTreeSet;
use std::ops::Range;

use terrace_device::{View, ViewMut, Workspace};
use terrace_kernels::{GroupKv, Ops, RowKinds, WeightFormat};

use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use placed_weights::PlacedWeights;

pub use buffers::WorkspaceShape;
pub use decoder_tensors::{DecoderTensors, LayerTensors};
pub use placed_adapter::PlacedAdapter;

pub struct Decoder {
    spec: DecoderSpec,
    weights: PlacedWeights,
    adapter: Option<PlacedAdapter>,
}

/// What a step computes with.
#[derive(Clone, Copy)]
pub struct StepCtx<'a> {
    pub ops: &'a Ops,
    pub scratch: &'a Workspace,
}

/// The rows of a step, all sequences one after the other.
#[derive(Clone, Copy)]
pub struct TokenRows<'a> {
    /// i32 `[tokens]`; an id below zero, -1 - i, stands for the i-th of `sampled`.
    pub ids: View<'a>,
    /// i32: ids that the step before sampled, where the host has not seen them.
    pub sampled: Option<View<'a>>,
    /// i32 `[tokens]`
    pub positions: View<'a>,
    /// Which rows are prompts'.
    pub row_kinds: RowKinds<'a>,
    /// i32 `[rows]`: the rows whose next token is wanted.
    pub wanted: View<'a>,
}

/// The keys and values of all layers and rows of a step.
pub struct LayeredKv<'k, 'a> {
    /// u8 `[pages, bytes]`
    pub pages: ViewMut<'k>,
    pub segments: &'k mut [KvSegment<'a>],
    /// Called before a layer's pages are used, where they may still be on their way.
    pub before_layer: Option<&'k dyn Fn(usize)>,
}

/// Rows of a step whose sequences have the same kind of cache, and the keys and values of all
/// layers.
pub struct KvSegment<'a> {
    /// Rows of dense caches are the first of a step.
    pub rows: Range<usize>,
    pub groups: Vec<GroupKv<'a>>,
    /// Which group each layer is in, and its index there.
    pub locations: &'a [LayerLocation],
}

/// A layer's group, and its index among the group's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerLocation {
    pub group: usize,
    pub layer: usize,
}

/// Where each layer is, given the layers of each group.
pub fn layer_locations<'a>(groups: impl Iterator<Item = &'a [usize]>) -> Vec<LayerLocation> {
    let members = groups.enumerate().flat_map(|(group, layers)| {
        let members = layers.iter().enumerate();
        members.map(move |(layer, of_model)| (*of_model, LayerLocation { group, layer }))
    });
    let mut members: Vec<_> = members.collect();
    members.sort_unstable_by_key(|(of_model, _)| *of_model);
    members.into_iter().map(|(_, location)| location).collect()
}

impl Decoder {
    /// Brings the tensors to the ops' device, with the branches of their adapter. `progress` is
    /// called after each layer.
    pub fn place(
        spec: DecoderSpec,
        tensors: DecoderTensors,
        ops: &Ops,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        assert_eq!(spec.layers.len(), tensors.layers.len(), "layers described and loaded");
        log_widened(&tensors, ops);
        let adapter = tensors.adapter.clone();
        let weights = PlacedWeights::place(&spec, tensors, ops, progress)?;
        weights.link(ops);
        let adapter = adapter.map(|adapter| {
            let beside = weights.branches();
            PlacedAdapter {
                name: adapter.name().to_owned(),
                kind: adapter.kind(),
                hash: adapter.hash(),
                merged: adapter.products().len() - beside,
                beside,
            }
        });
        Ok(Decoder { spec, weights, adapter })
    }

    /// A decoder whose weights mean nothing, made on the device: for measurements.
    pub fn random(
        spec: DecoderSpec,
        format: WeightFormat,
        ops: &Ops,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let weights = PlacedWeights::random(&spec, format, ops, progress)?;
        weights.link(ops);
        Ok(Decoder { spec, weights, adapter: None })
    }

    /// Bytes of all weight matrices where they are.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Bytes of the weight matrices that each step reads whole: not the embedding table, of which
    /// it reads a few rows, unless that is the head too.
    pub fn step_weight_bytes(&self) -> usize {
        self.weights.step_bytes()
    }

    /// The adapter whose branches are a part of what is computed.
    pub fn adapter(&self) -> Option<&PlacedAdapter> {
        self.adapter.as_ref()
    }

    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }
}

/// One line for weights that take more memory than their file suggests.
fn log_widened(tensors: &DecoderTensors, ops: &Ops) {
    let widened = tensors.matrices().filter(|matrix| ops.widens(matrix));
    let names: BTreeSet<&str> = widened.map(|matrix| matrix.format().name()).collect();
    if !names.is_empty() {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        tracing::info!("weights of {names} are kept as {}", ops.activation().name());
    }
}
