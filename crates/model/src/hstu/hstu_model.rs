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
    mlps: StreamMlps,
    stack: HstuStack,
    head: Option<Mlp>,
}

/// What rows of items, with their actions, and of the context go through before the first layer.
#[derive(Default)]
pub struct StreamMlps {
    pub items: Option<Mlp>,
    pub context: Option<Mlp>,
}

struct PositionTable {
    table: Vector,
    rows: usize,
}

/// What a step computes.
#[derive(Clone, Copy)]
pub struct HstuStep<'a> {
    pub rows: TokenRows<'a>,
    /// i32 `[tokens]`: the row of the position table.
    pub position_rows: View<'a>,
    /// i32 `[scored]`: the tokens that are scored, which are the candidates, in their order. On a
    /// GPU negative ones stand for none.
    pub scored: View<'a>,
    /// Where layers look at times.
    pub times: Option<StepTimes<'a>>,
}

/// Where the embedding rows of a step's tokens are.
#[derive(Clone, Copy)]
pub struct TokenRows<'a> {
    /// Of all tokens; of items and actions alone where the context is embedded apart.
    pub items: StreamRows<'a>,
    pub apart: Option<ContextRows<'a>>,
}

/// The context, where its rows or those of items go through an mlp.
#[derive(Clone, Copy)]
pub struct ContextRows<'a> {
    /// With an id for each token of the step, as the items' have.
    pub context: StreamRows<'a>,
    /// i32 `[tokens]`: the number of a token that is an item's, and of one of the context that
    /// number and the tokens of the step.
    pub chosen: View<'a>,
}

#[derive(Clone, Copy)]
pub struct StreamRows<'a> {
    /// f32 or bf16 `[_, dim]`
    pub rows: View<'a>,
    /// i32 `[tokens]`: the row of each token
    pub ids: View<'a>,
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
        mlps: StreamMlps,
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
        Ok(HstuModel { layout, embedding_scale, positions, mlps, stack, head })
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
            + self.mlps.workspace_bytes(ops, size.tokens, hidden)
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
        let (tokens, [scored]) = (step.rows.items.ids.shape().count(), step.scored.dims());
        let hidden = self.stack.spec().hidden;
        let mut stream = workspace.take(DType::F32, [tokens, hidden]);
        self.embed(ctx, &step, stream.reborrow());
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
    pub fn embed(&self, ctx: HstuStepCtx<'_>, step: &HstuStep<'_>, mut out: ViewMut<'_>) {
        let [tokens, hidden] = out.dims();
        let positions = self
            .positions
            .as_ref()
            .map(|positions| AddedRows { table: &positions.table, ids: step.position_rows });
        let mut embed = |StreamRows { rows, ids }: StreamRows<'_>| {
            let (scale, added) = (self.embedding_scale, [positions, None]);
            ctx.ops.embed_tokens(&EmbedTokensArgs { rows, ids, scale, added }, out.reborrow());
        };
        let TokenRows { items, apart } = step.rows;
        let Some(ContextRows { context, chosen }) = apart else { return embed(items) };
        let mut both = ctx.workspace.take(DType::F32, [2 * tokens, hidden]);
        for (first, rows, mlp) in
            [(0, items, &self.mlps.items), (tokens, context, &self.mlps.context)]
        {
            let out = both.reborrow().rows(first..first + tokens);
            embed_stream(ctx, rows, mlp.as_ref(), out);
        }
        embed(StreamRows { rows: both.as_view(), ids: chosen });
    }
}

impl StreamMlps {
    /// Where there is none, no rows but those of the model are taken.
    fn workspace_bytes(&self, ops: &Ops, tokens: usize, hidden: usize) -> usize {
        let mlps: Vec<&Mlp> = self.items.iter().chain(&self.context).collect();
        let of_mlp = |mlp: &&Mlp| {
            let inputs = Workspace::bytes_for(ops.activation(), [tokens, mlp.inputs()]);
            inputs + mlp.workspace_bytes(ops, tokens)
        };
        match mlps.is_empty() {
            true => 0,
            false => {
                let both = Workspace::bytes_for(DType::F32, [2 * tokens, hidden]);
                both + mlps.iter().map(of_mlp).sum::<usize>()
            }
        }
    }
}

/// out: f32 `[tokens, hidden]`: the rows of all tokens, those of others among them.
fn embed_stream(
    ctx: HstuStepCtx<'_>,
    StreamRows { rows, ids }: StreamRows<'_>,
    mlp: Option<&Mlp>,
    out: ViewMut<'_>,
) {
    let args = EmbedTokensArgs { rows, ids, scale: 1.0, added: [None, None] };
    let Some(mlp) = mlp else { return ctx.ops.embed_tokens(&args, out) };
    let ([tokens], dim) = (ids.dims(), mlp.inputs());
    let mut gathered = ctx.workspace.take(ctx.ops.activation(), [tokens, dim]);
    ctx.ops.embed_tokens(&args, gathered.reborrow());
    mlp.forward(ctx, gathered.as_view(), out);
}
