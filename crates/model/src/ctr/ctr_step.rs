//! One step of a click-through model: its memory, and the ops over it.

use terrace_device::{DType, View, ViewMut, Workspace};
use terrace_kernels::Ops;

use super::ctr_model::CtrModel;
use super::plan::{Memory, Place, PlannedStep};

pub struct CtrStep<'a> {
    model: &'a CtrModel,
    ops: &'a Ops,
    samples: usize,
    /// act `[numbers]` each; `None` while it is written.
    slots: Vec<Option<ViewMut<'a>>>,
    /// The next op of the plan.
    next: usize,
}

/// What a step runs on.
#[derive(Clone, Copy)]
pub struct CtrCtx<'a> {
    pub ops: &'a Ops,
    pub workspace: &'a Workspace,
}

/// What a step computes.
#[derive(Clone, Copy)]
pub struct CtrInput<'a> {
    /// f32 `[samples, dense_dim]`; none where there are no dense features
    pub dense: Option<View<'a>>,
    /// act `[samples, slots * dim]` of each table
    pub pooled: &'a [View<'a>],
}

impl CtrModel {
    /// Takes the memory of a step. The caller fills [`CtrStep::pooled`] of each table, and runs it.
    pub fn step<'a>(&'a self, ctx: CtrCtx<'a>, samples: usize) -> CtrStep<'a> {
        CtrStep::new(self, ctx, samples)
    }

    /// A step whose pooled vectors lie elsewhere · out: f32 `[samples, outputs]`
    pub fn forward(&self, ctx: CtrCtx<'_>, input: CtrInput<'_>, out: ViewMut<'_>) {
        assert_eq!(input.pooled.len(), self.inputs().tables.len(), "pooled vectors of all tables");
        let [samples, _] = out.dims();
        let mut step = self.step(ctx, samples);
        for (table, pooled) in input.pooled.iter().enumerate() {
            ctx.ops.arrange(*pooled, step.pooled(table));
        }
        step.run(input.dense, out);
    }
}

impl<'a> CtrStep<'a> {
    fn new(model: &'a CtrModel, ctx: CtrCtx<'a>, samples: usize) -> Self {
        let act = ctx.ops.activation();
        let take = |numbers: &usize| Some(ctx.workspace.take(act, [numbers * samples]));
        let slots = model.plan.slots.iter().map(take).collect();
        CtrStep { model, ops: ctx.ops, samples, slots, next: 0 }
    }

    /// Where a table's pooled vectors go: act `[samples, slots * dim]`, rows may be strided
    pub fn pooled(&mut self, table: usize) -> ViewMut<'_> {
        let place = self.model.plan.pooled[table];
        let Memory::Slot(slot) = place.memory else { unreachable!("inputs lie in slots") };
        let slot = self.slots[slot].as_mut().expect("nothing is written now");
        columns_mut(slot.reborrow(), place, self.samples)
    }

    /// What needs no pooled vectors, which may be written meanwhile on another stream; left out,
    /// [`run`](Self::run) does it · dense: as there
    pub fn begin(&mut self, dense: Option<View<'_>>) {
        self.run_until(self.model.plan.early, dense, None);
    }

    /// dense: f32 `[samples, dense_dim]` · out: f32 `[samples, outputs]`
    pub fn run(mut self, dense: Option<View<'_>>, out: ViewMut<'_>) {
        let wanted = [self.samples, self.model.output_width()];
        assert_eq!((out.dims(), out.dtype()), (wanted, DType::F32), "out of a step");
        self.run_until(self.model.plan.steps.len(), dense, Some(out));
    }

    fn run_until(&mut self, end: usize, dense: Option<View<'_>>, mut out: Option<ViewMut<'_>>) {
        let dense_dim = self.model.inputs().dense_dim;
        if let Some(dense) = dense {
            assert_eq!(dense.dims(), [self.samples, dense_dim], "dense features of a step");
        }
        let steps = &self.model.plan.steps[self.next..end];
        self.next = end;
        if self.samples == 0 {
            return;
        }
        for step in steps {
            // Nobody reads what a step writes, so its slots can be away meanwhile.
            let mut written: Vec<(usize, ViewMut<'_>)> = Vec::new();
            for place in step.writes() {
                if let Memory::Slot(slot) = place.memory {
                    let view = self.slots[slot].take().expect("a slot is written once");
                    written.push((slot, view));
                }
            }
            let out = out.as_mut().map(ViewMut::reborrow);
            self.run_step(step, dense, &mut written, out);
            for (slot, view) in written {
                self.slots[slot] = Some(view);
            }
        }
    }

    fn run_step(
        &self,
        step: &PlannedStep,
        dense: Option<View<'_>>,
        written: &mut [(usize, ViewMut<'_>)],
        mut out: Option<ViewMut<'_>>,
    ) {
        let mut tops: Vec<ViewMut<'_>> = Vec::with_capacity(step.writes().len());
        let mut slots = written.iter_mut();
        for place in step.writes() {
            tops.push(match place.memory {
                Memory::Slot(_) => {
                    let (_, slot) = slots.next().expect("it was taken");
                    columns_mut(slot.reborrow(), *place, self.samples)
                }
                Memory::Output => {
                    let out = out.take().expect("a step has one result");
                    part(out, place.start, place.width)
                }
            });
        }
        match step {
            PlannedStep::Dense { .. } => {
                let dense = dense.expect("the model has dense features");
                self.ops.arrange(dense, tops.remove(0));
            }
            PlannedStep::Clear { .. } => self.ops.clear_rows(tops.remove(0)),
            PlannedStep::Arrange { from, .. } => {
                self.ops.arrange(self.view(*from), tops.remove(0));
            }
            PlannedStep::Activate { from, kind, .. } => {
                self.ops.activate_rows(self.view(*from), *kind, tops.remove(0));
            }
            PlannedStep::Compute { node, bottoms, .. } => {
                let bottoms: Vec<View<'_>> =
                    bottoms.iter().map(|bottom| self.view(*bottom)).collect();
                let layer = self.model.layers[*node].as_ref().expect("it was placed");
                layer.forward(self.ops, &bottoms, &mut tops);
            }
        }
    }

    /// act `[samples * rows, width]`
    fn view(&self, place: Place) -> View<'_> {
        let Memory::Slot(slot) = place.memory else { unreachable!("results are not read") };
        let slot = self.slots[slot].as_ref().expect("a step reads no slot that it writes");
        let rows = self.samples * place.rows;
        let whole = slot.as_view().first(rows * place.stride).reshape([rows, place.stride]);
        whole.columns(place.start, place.width)
    }
}

/// act `[samples * rows, width]`
fn columns_mut<'v>(slot: ViewMut<'v>, place: Place, samples: usize) -> ViewMut<'v> {
    let rows = samples * place.rows;
    let whole = slot.first(rows * place.stride).reshape([rows, place.stride]);
    part(whole, place.start, place.width)
}

/// Some columns.
fn part(whole: ViewMut<'_>, start: usize, width: usize) -> ViewMut<'_> {
    let [_, columns] = whole.dims();
    let [_, part, _] = whole.split_columns([start, width, columns - start - width]);
    part
}
