//! A layer's forward pass over a cell.

use terrace_cache::policy::SlotFormat;
use terrace_device::View;
use terrace_kernels::{ChunkAt, ReplayQueries, TuneOps};

use super::layer_pass::LayerPass;
use super::projected::{Heads, Values};
use crate::error::Error;
use crate::model::ProjectionTrace;
use crate::slots::{LayerSlots, PlacedChunk, PolicySlots, SlotChoice};
use crate::tensor::Tensor;

/// What a layer's backward pass needs of its forward pass over a cell; all f32 `[rows, _]`.
pub(crate) struct LayerTrace {
    /// The layer's input.
    pub(super) x: Tensor,
    pub(super) normed: Tensor,
    pub(super) query: Heads,
    pub(super) key: Heads,
    pub(super) value: Values,
    pub(super) placed: Vec<PlacedChunk>,
    pub(super) attended: Tensor,
    pub(super) log_sums: Tensor,
    pub(super) output: ProjectionTrace,
    /// Between attention and the feed-forward unit.
    pub(super) middle: Tensor,
    pub(super) normed_middle: Tensor,
    pub(super) gate: (Tensor, ProjectionTrace),
    pub(super) up: (Tensor, ProjectionTrace),
    pub(super) gated: Tensor,
    pub(super) down: ProjectionTrace,
}

impl LayerTrace {
    /// Keys and values of the cell's tokens, f32 `[rows, kv_heads * dim]`.
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
        let value = Values::forward(ops, &weights.value, normed.view(), dropped)?;
        let heads = [&query, &key];
        let Attended { out: attended, log_sums, placed } =
            self.attend(heads, &value, slots, choice, rounded)?;
        let (mut middle, output) = weights.output.forward(ops, attended.view(), dropped)?;
        ops.add(middle.view_mut(), x.view());
        let normed_middle = self.norm(&middle, &weights.ffn_norm)?;
        let gate = weights.gate.forward(ops, normed_middle.view(), dropped)?;
        let up = weights.up.forward(ops, normed_middle.view(), dropped)?;
        let mut gated = Tensor::unset(ops, "gated units", gate.0.shape())?;
        ops.gate(gate.0.view(), up.0.view(), dims.activation, gated.view_mut());
        let (mut out, down) = weights.down.forward(ops, gated.view(), dropped)?;
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
        let mut out = Tensor::unset(ops, "attention", [rows, dims.heads * dims.head_dim])?;
        let mut log_sums = Tensor::unset(ops, "attention's sums", [rows, dims.heads])?;
        let live = [&key.rotated, &value.rows];
        let stored = rounded.map(|formats| round(ops, live, formats, dims.head_dim)).transpose()?;
        let stored = stored.as_ref().map_or(live, |[keys, values]| [keys, values]);
        let mut placed = Vec::new();
        for at in cell.chunks_of(dims) {
            let positions = at.position..at.position + at.tokens;
            let chosen = match &mut choice {
                SlotChoice::Policy(policy) => policy.choose(at.tokens)?,
                SlotChoice::Replay(replay) => replay.placed(*layer, positions),
            };
            placed.push(slots.place(ops, at, &chosen, stored.map(Tensor::view))?);
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
    let [keys, values] = live.map(|rows| chunk_rows(rows.numbers(), &at));
    policy.commit([&keys, &values]);
    if policy.wants_weights() {
        let shape = [at.seqs * at.kv_heads, queries.slots.filled];
        let mut weights = Tensor::zeros(ops, "attention's weights", shape)?;
        ops.weight_sums(queries, log_sums, weights.view_mut());
        policy.add_weights(at.tokens, weights.numbers());
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

/// What rows read as once they are stored.
fn round(
    ops: &TuneOps<'_>,
    rows: [&Tensor; 2],
    formats: [SlotFormat; 2],
    dim: usize,
) -> Result<[Tensor; 2], Error> {
    let [keys, values] = rows;
    let [mut keys, mut values] =
        [keys.copy(ops, "stored keys")?, values.copy(ops, "stored values")?];
    for (rows, format) in [&mut keys, &mut values].into_iter().zip(formats) {
        for row in rows.numbers_mut::<f32>().chunks_exact_mut(dim) {
            format.pass(row);
        }
    }
    Ok([keys, values])
}
