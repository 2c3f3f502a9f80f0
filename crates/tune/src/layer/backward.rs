//! A layer's backward pass over a cell, chunk by chunk from the last.

use terrace_kernels::{GateGradients, ReplayGradients, ReplayQueries, RowGradients, TuneOps};
use terrace_model::LayerProduct;

use super::forward::LayerTrace;
use super::layer_pass::LayerPass;
use crate::error::Error;
use crate::model::{Gradients, LayerDims};
use crate::slots::LayerSlots;
use crate::tensor::Tensor;

/// The gradients of keys and values in slots: f32 `[seqs * kv_heads, slots, head_dim]`. Between
/// cells they are what the cells to the right ask of those to the left.
pub(crate) struct SlotGradients {
    keys: Tensor,
    values: Tensor,
}

impl SlotGradients {
    pub fn none(
        ops: &TuneOps<'_>,
        dims: LayerDims,
        seqs: usize,
        slots: usize,
    ) -> Result<Self, Error> {
        let shape = [seqs * dims.kv_heads, slots, dims.head_dim];
        let zeros = || Tensor::zeros(ops, "gradients of slots", shape);
        Ok(SlotGradients { keys: zeros()?, values: zeros()? })
    }
}

impl LayerPass<'_> {
    /// d_out: of the layer's output · gives that of its input. Slots and their gradients are
    /// brought to where they were before the cell.
    pub fn backward(
        &self,
        mut trace: LayerTrace,
        d_out: Tensor,
        slots: &mut LayerSlots,
        d_slots: &mut SlotGradients,
        gradients: &mut Gradients,
    ) -> Result<Tensor, Error> {
        let LayerPass { ops, weights, .. } = self;
        let dropped = self.cell.dropped();
        let d_middle = self.feed_forward_backward(&trace, d_out, gradients)?;
        let mut d_attended = Tensor::zeros(ops, "gradients of attention", trace.attended.shape())?;
        let d_middle_view = d_middle.view();
        let attended = trace.attended.view();
        let output = self.projection(LayerProduct::Output);
        output.backward(
            ops,
            attended,
            (&trace.output, dropped),
            d_middle_view,
            &mut d_attended,
            gradients,
        )?;
        let [d_query, d_key, d_value] =
            self.attention_backward(&mut trace, &d_attended, slots, d_slots)?;
        let mut d_normed = Tensor::zeros(ops, "gradients of normed rows", trace.normed.shape())?;
        let normed = trace.normed.view();
        self.queries().backward(normed, &trace.query, d_query, &mut d_normed, gradients)?;
        self.keys().backward(normed, &trace.key, d_key, &mut d_normed, gradients)?;
        let value = self.projection(LayerProduct::Value);
        trace.value.backward(
            ops,
            value,
            normed,
            (d_value.view(), dropped),
            &mut d_normed,
            gradients,
        )?;
        let mut d_x = d_middle;
        let norm = &weights.attention_norm;
        self.norm_backward(&trace.x, norm, &d_normed, &mut d_x, gradients);
        Ok(d_x)
    }

    /// Gives the gradient of what the feed-forward unit is added to.
    fn feed_forward_backward(
        &self,
        trace: &LayerTrace,
        d_out: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor, Error> {
        let LayerPass { ops, weights, .. } = self;
        let dropped = self.cell.dropped();
        let ((gate, gate_trace), (up, up_trace)) = (&trace.gate, &trace.up);
        let shape = gate.shape();
        let mut d_gated = Tensor::zeros(ops, "gradients of gated units", shape)?;
        let gated = trace.gated.view();
        self.projection(LayerProduct::Down).backward(
            ops,
            gated,
            (&trace.down, dropped),
            d_out.view(),
            &mut d_gated,
            gradients,
        )?;
        let mut d_gate = Tensor::unset(ops, "gradients of gates", shape)?;
        let mut d_up = Tensor::unset(ops, "gradients of gates", shape)?;
        ops.gate_gradients(GateGradients {
            gate: gate.view(),
            up: up.view(),
            kind: weights.dims.activation,
            d_out: d_gated.view(),
            d_gate: d_gate.view_mut(),
            d_up: d_up.view_mut(),
        });
        let mut d_normed =
            Tensor::zeros(ops, "gradients of normed rows", trace.normed_middle.shape())?;
        let normed = trace.normed_middle.view();
        self.projection(LayerProduct::Gate).backward(
            ops,
            normed,
            (gate_trace, dropped),
            d_gate.view(),
            &mut d_normed,
            gradients,
        )?;
        self.projection(LayerProduct::Up).backward(
            ops,
            normed,
            (up_trace, dropped),
            d_up.view(),
            &mut d_normed,
            gradients,
        )?;
        let mut d_middle = d_out;
        let norm = &weights.ffn_norm;
        self.norm_backward(&trace.middle, norm, &d_normed, &mut d_middle, gradients);
        Ok(d_middle)
    }

    /// Gives the gradients of rotated queries and keys, and of values.
    fn attention_backward(
        &self,
        trace: &mut LayerTrace,
        d_attended: &Tensor,
        slots: &mut LayerSlots,
        d_slots: &mut SlotGradients,
    ) -> Result<[Tensor; 3], Error> {
        let LayerPass { ops, weights, .. } = self;
        let zeros = |like: &Tensor| Tensor::unset(ops, "gradients of heads", like.shape());
        let mut d_query = zeros(&trace.query.rotated)?;
        let (mut d_key, mut d_value) = (zeros(&trace.key.rotated)?, zeros(&trace.value.rows)?);
        while let Some(placed) = trace.placed.pop() {
            let queries = ReplayQueries {
                at: placed.at,
                query: trace.query.rotated.view(),
                slots: slots.view(),
                scale: self.scale(),
                window: weights.dims.window,
            };
            let gradients = ReplayGradients {
                queries,
                out: trace.attended.view(),
                log_sums: trace.log_sums.view(),
                d_out: d_attended.view(),
                d_query: d_query.view_mut(),
                d_keys: d_slots.keys.view_mut(),
                d_values: d_slots.values.view_mut(),
            };
            ops.attend_slots_gradients(gradients)?;
            slots.take_back(
                ops,
                placed,
                RowGradients {
                    slot_keys: d_slots.keys.view_mut(),
                    slot_values: d_slots.values.view_mut(),
                    keys: d_key.view_mut(),
                    values: d_value.view_mut(),
                },
            );
        }
        Ok([d_query, d_key, d_value])
    }
}
