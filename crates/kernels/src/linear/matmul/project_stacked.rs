//! The products of one input whose results lie side by side.

use terrace_device::{View, ViewMut};

use super::project::project;
use super::projection::Projection;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::biased_weight::BiasedWeight;

pub(crate) fn project_stacked(
    ctx: &CpuCtx,
    x: View<'_>,
    weights: &[BiasedWeight],
    mut out: ViewMut<'_>,
) {
    let mut products = Vec::with_capacity(weights.len());
    let mut rest = Some(out.reborrow());
    for biased in weights {
        let whole = rest.take().expect("widths were checked");
        let [_, columns] = whole.dims();
        let rows = biased.weight.rows();
        let [mine, others] = whole.split_columns([rows, columns - rows]);
        let bias = biased.bias.as_deref().map(|bias| View::of(bias, [rows]));
        products.push(Projection { weight: &biased.weight, bias, out: mine });
        rest = Some(others);
    }
    project(ctx, x, &mut products);
}
