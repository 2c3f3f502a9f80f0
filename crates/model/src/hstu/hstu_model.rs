//! A whole model: what becomes of candidates after a user's history.
//!
//! With a head they are scored. Without one they become queries, which a retrieval model compares
//! with its items.

use terrace_device::{DType, View, ViewMut, Workspace};
use terrace_kernels::{AddedRows, EmbedTokensArgs, HstuKv, HstuStepSize, Ops, PageLayout, Vector};

use super::mlp::Mlp;
use super::stack::{HstuStack, HstuStepCtx, StepTimes};
use super::token_layout::TokenLayout;
use crate::error::Error;

pub struct HstuModel {
    pub layout: TokenLayout,
    /// What embedding rows are multiplied by.
    pub embedding_scale: f32,
    positions: Option<PositionTable>,
    stack: HstuStack,
    head: Option<Mlp>,
}

struct PositionTable {
    table: Vector,
    rows: usize,
}

/// What a step computes.
#[derive(Clone, Copy)]
pub struct HstuStep<'a> {
    /// f32 or bf16 `[_, hidden]`: embedding rows.
    pub rows: View<'a>,
    /// i32 `[tokens]`: the row of each token.
    pub ids: View<'a>,
    /// i32 `[tokens]`: the row of the position table.
    pub position_rows: View<'a>,
    /// i32 `[scored]`: the tokens that are scored, which are the candidates, in their order. On a
    /// GPU negative ones stand for none.
    pub scored: View<'a>,
    /// Where layers look at times.
    pub times: Option<StepTimes<'a>>,
}

/// What scored rows are divided by, at the least.
const LEAST_LENGTH: f32 = 1e-6;

impl HstuModel {
    /// positions: f32 `[rows, hidden]`
    pub fn place(
        ops: &Ops,
        layout: TokenLayout,
        embedding_scale: f32,
        positions: Option<&[f32]>,
        stack: HstuStack,
        head: Option<Mlp>,
    ) -> Result<Self, Error> {
        let hidden = stack.spec().hidden;
        if let Some(inputs) = head.as_ref().map(Mlp::inputs)
            && inputs != hidden
        {
            return Err(Error::Config(format!("the head takes {inputs} of {hidden} numbers")));
        }
        let positions = positions.map(|table| -> Result<PositionTable, Error> {
            Ok(PositionTable { table: ops.place_vector(table)?, rows: table.len() / hidden })
        });
        let positions = positions.transpose()?;
        Ok(HstuModel { layout, embedding_scale, positions, stack, head })
    }

    pub fn stack(&self) -> &HstuStack {
        &self.stack
    }

    /// Scores of a candidate, or numbers of a query.
    pub fn outputs(&self) -> usize {
        self.head.as_ref().map_or(self.stack.spec().hidden, Mlp::outputs)
    }

    /// Whether candidates are scored; otherwise they are queries.
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Rows of the position table; `None` where there is none.
    pub fn position_rows(&self) -> Option<usize> {
        self.positions.as_ref().map(|positions| positions.rows)
    }

    /// Workspace bytes of a step of this size, or a smaller one, with so many scored candidates.
    pub fn workspace_bytes(
        &self,
        ops: &Ops,
        layout: &PageLayout,
        size: HstuStepSize,
        scored: usize,
    ) -> usize {
        let hidden = self.stack.spec().hidden;
        Workspace::bytes_for(DType::F32, [size.tokens, hidden])
            + Workspace::bytes_for(ops.activation(), [scored, hidden])
            + self.stack.workspace_bytes(ops, layout, size)
            + self.head.as_ref().map_or(0, |head| head.workspace_bytes(ops, scored))
    }

    /// out: f32 `[scored, outputs]`: logits, or queries
    pub fn forward(
        &self,
        ctx: HstuStepCtx<'_>,
        step: HstuStep<'_>,
        kv: &mut HstuKv<'_>,
        out: ViewMut<'_>,
    ) {
        let HstuStepCtx { ops, workspace, .. } = ctx;
        let ([tokens], [scored]) = (step.ids.dims(), step.scored.dims());
        let hidden = self.stack.spec().hidden;
        let mut stream = workspace.take(DType::F32, [tokens, hidden]);
        self.embed(ops, &step, stream.reborrow());
        self.stack.forward_candidates(ctx, stream.reborrow(), kv, step.times, step.scored);
        if scored == 0 {
            return;
        }
        let Some(head) = &self.head else {
            ops.unit_rows(stream.as_view(), step.scored, LEAST_LENGTH, out);
            return;
        };
        let mut unit = workspace.take(ops.activation(), [scored, hidden]);
        ops.unit_rows(stream.as_view(), step.scored, LEAST_LENGTH, unit.reborrow());
        head.forward(ctx, unit.as_view(), out);
    }

    /// The inputs of the first layer: f32 `[tokens, hidden]`.
    pub fn embed(&self, ops: &Ops, step: &HstuStep<'_>, out: ViewMut<'_>) {
        let positions = self
            .positions
            .as_ref()
            .map(|positions| AddedRows { table: &positions.table, ids: step.position_rows });
        let args = EmbedTokensArgs {
            rows: step.rows,
            ids: step.ids,
            scale: self.embedding_scale,
            added: [positions, None],
        };
        ops.embed_tokens(&args, out);
    }
}
