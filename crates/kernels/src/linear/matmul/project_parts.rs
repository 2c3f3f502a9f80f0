//! The products of one input whose results lie side by side.

use terrace_device::{View, ViewMut};

use super::project::project;
use super::projection::Projection;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::linear::LinearPart;

pub(crate) fn project_parts(ctx: &CpuCtx, x: View<'_>, parts: &[LinearPart], mut out: ViewMut<'_>) {
    let mut products = Vec::with_capacity(parts.len());
    let mut rest = Some(out.reborrow());
    for part in parts {
        let whole = rest.take().expect("widths were checked");
        let [_, columns] = whole.dims();
        let rows = part.weight.rows();
        let [mine, others] = whole.split_columns([rows, columns - rows]);
        let bias = part.bias.as_deref().map(|bias| View::of(bias, [rows]));
        products.push(Projection { weight: &part.weight, bias, out: mine });
        rest = Some(others);
    }
    project(ctx, x, &mut products);
}
