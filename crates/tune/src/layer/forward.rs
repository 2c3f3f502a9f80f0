//! A layer's forward pass over a cell.

use std::sync::Arc;

use terrace_cache::policy::SlotFormat;
use terrace_device::{DType, View};
use terrace_kernels::{ChunkAt, ReplayQueries, TuneOps};
use terrace_model::LayerProduct;

use super::layer_pass::LayerPass;
use super::projected::{Heads, Values};
use crate::error::Error;
use crate::model::ProjectionTrace;
use crate::slots::{LayerSlots, PlacedChunk, PolicySlots, SlotChoice};
use crate::tensor::Tensor;

/// What a layer's backward pass needs of its forward pass over a cell: all act `[rows, _]` but
/// what says otherwise.
pub(crate) struct LayerTrace {
    /// The layer's input, f32.
    pub(super) x: Tensor,
    pub(super) normed: Tensor,
    pub(super) query: Heads,
    pub(super) key: Heads,
    pub(super) value: Values,
    pub(super) placed: Vec<PlacedChunk>,
    pub(super) attended: Tensor,
    /// f32
    pub(super) log_sums: Tensor,
    pub(super) output: ProjectionTrace,
    /// Between attention and the feed-forward unit, f32.
    pub(super) middle: Tensor,
    pub(super) normed_middle: Tensor,
    pub(super) gate: (Tensor, ProjectionTrace),
    pub(super) up: (Tensor, ProjectionTrace),
    pub(super) gated: Tensor,
    pub(super) down: ProjectionTrace,
}

impl LayerTrace {
    /// Keys and values of the cell's tokens, act `[rows, kv_heads * dim]`.
    pub fn key_values(&self) -> [&Tensor; 2] {
        [&self.key.rotated, &self.value.rows]
    }
}

impl LayerPass<'_> {
    /// `slots` are brought to where they are after the cell. `rounded`: how rows are stored where
    /// they are rounded before attention.
    pub fn forward(
        &self,
        x: Tensor,
        slots: &mut LayerSlots,
        choice: SlotChoice<'_>,
        rounded: Option<[SlotFormat; 2]>,
    ) -> Result<(Tensor, LayerTrace), Error> {
        let LayerPass { ops, weights, .. } = self;
        let dropped = self.cell.dropped();
        let dims = weights.dims;
        let normed = self.norm(&x, &weights.attention_norm)?;
        let query = self.queries().forward(normed.view())?;
        let key = self.keys().forward(normed.view())?;
        let value = self.projection(LayerProduct::Value);
        let value = Values::forward(ops, value, normed.view(), dropped)?;
        let heads = [&query, &key];
        let Attended { out: attended, log_sums, placed } =
            self.attend(heads, &value, slots, choice, rounded)?;
        let (f32, act) = (DType::F32, ops.activation());
        let output = self.projection(LayerProduct::Output);
        let (mut middle, output) = output.forward(ops, attended.view(), dropped, f32)?;
        ops.add(middle.view_mut(), x.view());
        let normed_middle = self.norm(&middle, &weights.ffn_norm)?;
        let gate = self.projection(LayerProduct::Gate);
        let gate = gate.forward(ops, normed_middle.view(), dropped, act)?;
        let up = self.projection(LayerProduct::Up);
        let up = up.forward(ops, normed_middle.view(), dropped, act)?;
        let mut gated = Tensor::unset_act(ops, "gated units", gate.0.shape())?;
        ops.gate(gate.0.view(), up.0.view(), dims.activation, gated.view_mut());
        let down = self.projection(LayerProduct::Down);
        let (mut out, down) = down.forward(ops, gated.view(), dropped, f32)?;
        ops.add(out.view_mut(), middle.view());
        let trace = LayerTrace {
            x,
            normed,
            query,
            key,
            value,
            placed,
            attended,
            log_sums,
            output,
            middle,
            normed_middle,
            gate,
            up,
            gated,
            down,
        };
        Ok((out, trace))
    }

    /// Chunk by chunk: rows into slots, attention, and what the policy learns of it.
    fn attend(
        &self,
        [query, key]: [&Heads; 2],
        value: &Values,
        slots: &mut LayerSlots,
        mut choice: SlotChoice<'_>,
        rounded: Option<[SlotFormat; 2]>,
    ) -> Result<Attended, Error> {
        let LayerPass { ops, cell, layer, weights } = self;
        let (dims, rows) = (weights.dims, cell.rows());
        let mut out = Tensor::unset_act(ops, "attention", [rows, dims.heads * dims.head_dim])?;
        let mut log_sums = Tensor::unset(ops, "attention's sums", [rows, dims.heads])?;
        let live = [&key.rotated, &value.rows];
        let [key_format, value_format] = rounded.unwrap_or([SlotFormat::Plain; 2]);
        let stored_keys = round(ops, &key.rotated, key_format, dims.head_dim)?;
        let stored_values = round(ops, &value.rows, value_format, dims.head_dim)?;
        let stored =
            [stored_keys.as_ref().unwrap_or(live[0]), stored_values.as_ref().unwrap_or(live[1])];
        let mut placed = Vec::new();
        for at in cell.chunks_of(dims) {
            let positions = at.position..at.position + at.tokens;
            let chosen = match &mut choice {
                SlotChoice::Policy(policy) => policy.choose(ops, at.tokens)?,
                SlotChoice::Replay(replay) => {
                    let chosen = replay.placed(*layer, positions);
                    let shape = [at.seqs * at.kv_heads, at.tokens];
                    Arc::new(Tensor::of(ops, "slots of a chunk", &chosen, shape)?)
                }
            };
            placed.push(slots.place(ops, at, chosen, stored.map(Tensor::view))?);
            let queries = ReplayQueries {
                at,
                query: query.rotated.view(),
                slots: slots.view(),
                scale: self.scale(),
                window: dims.window,
            };
            ops.attend_slots(queries, out.view_mut(), log_sums.view_mut());
            if let SlotChoice::Policy(policy) = &mut choice {
                score(ops, policy, queries, log_sums.view(), live)?;
            }
        }
        Ok(Attended { out, log_sums, placed })
    }
}

struct Attended {
    out: Tensor,
    log_sums: Tensor,
    placed: Vec<PlacedChunk>,
}

/// Tells the policy of a chunk's rows, and what they attended to.
fn score(
    ops: &TuneOps<'_>,
    policy: &mut PolicySlots,
    queries: ReplayQueries<'_>,
    log_sums: View<'_>,
    live: [&Tensor; 2],
) -> Result<(), Error> {
    let at = queries.at;
    let rows = match policy.wants_rows() {
        true => {
            let [keys, values] = live;
            let chunk = |rows: &Tensor| Ok::<_, Error>(chunk_rows(&rows.numbers(ops)?, &at));
            Some([chunk(keys)?, chunk(values)?])
        }
        false => None,
    };
    policy.commit(rows.as_ref());
    if policy.wants_weights() {
        let shape = [at.seqs * at.kv_heads, queries.slots.filled];
        let mut weights = Tensor::zeros(ops, "attention's weights", shape)?;
        ops.weight_sums(queries, log_sums, weights.view_mut());
        policy.add_weights(ops, at.tokens, &weights)?;
    }
    Ok(())
}

/// `[seqs * row_tokens, kv_heads * dim]` to `[seqs][kv_heads][tokens][dim]` of the chunk.
fn chunk_rows(rows: &[f32], at: &ChunkAt) -> Vec<f32> {
    let order = (0..at.seqs).flat_map(|seq| (0..at.kv_heads).map(move |head| (seq, head)));
    let order = order.flat_map(|(seq, head)| (0..at.tokens).map(move |token| (seq, head, token)));
    let row = |(seq, head, token)| {
        let row = seq * at.row_tokens + at.first + token;
        &rows[(row * at.kv_heads + head) * at.dim..][..at.dim]
    };
    order.flat_map(row).copied().collect()
}

/// What rows read as once they are stored, if that is anything else.
fn round(
    ops: &TuneOps<'_>,
    rows: &Tensor,
    format: SlotFormat,
    dim: usize,
) -> Result<Option<Tensor>, Error> {
    let Some(quantiser) = format.quantiser() else { return Ok(None) };
    let mut stored = Tensor::unset_act(ops, "stored rows", rows.shape())?;
    ops.round_rows(rows.view(), dim, quantiser, stored.view_mut());
    Ok(Some(stored))
}
