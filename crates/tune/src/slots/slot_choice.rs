//! Who says into which slots a chunk goes: the policy, whose rules are those of serving, or a
//! replay of what it said.

use std::sync::Arc;

use terrace_cache::policy::{KvCacheSpec, Placement, TableShape};
use terrace_kernels::TuneOps;

use super::batch_replay::BatchReplay;
use super::op_policy::OpPolicy;
use super::table_policy::TablePolicy;
use crate::error::Error;
use crate::model::LayerDims;
use crate::tensor::Tensor;

pub(crate) enum SlotChoice<'a> {
    Policy(&'a mut PolicySlots),
    Replay(&'a BatchReplay),
}

/// A policy's slots in one layer.
pub(crate) enum PolicySlots {
    /// The op decides where the ops compute; a text of any length waits for no host.
    Op(Box<OpPolicy>),
    /// Rules that the op does not have, or that look at more than scores.
    Tables(TablePolicy),
}

impl PolicySlots {
    pub fn new(
        ops: &TuneOps<'_>,
        spec: &KvCacheSpec,
        layer: usize,
        dims: LayerDims,
        seqs: usize,
    ) -> Result<Self, Error> {
        let slots = spec.slots(layer);
        let rule = spec.rule(slots)?;
        if spec.compat.is_some() || !OpPolicy::knows(&rule) {
            return Ok(PolicySlots::Tables(TablePolicy::new(spec, layer, dims, seqs)?));
        }
        let shape = TableShape { kv_heads: dims.kv_heads, slots };
        Ok(PolicySlots::Op(Box::new(OpPolicy::new(ops, rule, shape, seqs)?)))
    }

    pub fn shape(&self) -> TableShape {
        match self {
            PolicySlots::Op(policy) => policy.shape(),
            PolicySlots::Tables(policy) => policy.shape(),
        }
    }

    /// i32 `[seqs * kv_heads, tokens]`
    pub fn choose(&mut self, ops: &TuneOps<'_>, tokens: usize) -> Result<Arc<Tensor>, Error> {
        match self {
            PolicySlots::Op(policy) => policy.choose(ops, tokens),
            PolicySlots::Tables(policy) => policy.choose(ops, tokens),
        }
    }

    /// Whether it asks for the keys and values of a chunk.
    pub fn wants_rows(&self) -> bool {
        matches!(self, PolicySlots::Tables(policy) if policy.wants_rows())
    }

    /// The chunk is in its slots. rows: where they are wanted, see [`TablePolicy::commit`]
    pub fn commit(&mut self, rows: Option<&[Vec<f32>; 2]>) {
        if let PolicySlots::Tables(policy) = self {
            policy.commit(rows);
        }
    }

    /// Whether it asks what the chunk attended to.
    pub fn wants_weights(&self) -> bool {
        match self {
            PolicySlots::Op(policy) => policy.wants_weights(),
            PolicySlots::Tables(policy) => policy.wants_weights(),
        }
    }

    /// weights: f32 `[seqs * kv_heads, filled]`
    pub fn add_weights(
        &mut self,
        ops: &TuneOps<'_>,
        tokens: usize,
        weights: &Tensor,
    ) -> Result<(), Error> {
        match self {
            PolicySlots::Op(policy) => policy.add_weights(ops, weights),
            PolicySlots::Tables(policy) => policy.add_weights(tokens, &weights.numbers(ops)?),
        }
        Ok(())
    }

    /// What was placed since the last call, `[chunks][seqs]`.
    pub fn take_placed(&mut self, ops: &TuneOps<'_>) -> Result<Vec<Vec<Placement>>, Error> {
        match self {
            PolicySlots::Op(policy) => policy.take_placed(ops),
            PolicySlots::Tables(policy) => Ok(policy.take_placed()),
        }
    }
}
