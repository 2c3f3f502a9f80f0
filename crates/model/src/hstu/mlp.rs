//! Products with biases one after the other, and a function between them.

use terrace_device::{DType, View, ViewMut, Workspace};
use terrace_kernels::{BiasedWeight, Linear, Ops, Pointwise, RowKinds};

use super::stack::HstuStepCtx;
use crate::error::Error;

pub struct Mlp {
    layers: Vec<Linear>,
    activation: Pointwise,
}

impl Mlp {
    /// There is no function after the last product.
    pub fn place(
        ops: &Ops,
        layers: Vec<BiasedWeight>,
        activation: Pointwise,
    ) -> Result<Self, Error> {
        let layers: Vec<Linear> =
            layers.into_iter().map(|layer| ops.place(vec![layer])).collect::<Result<_, _>>()?;
        let fits = layers.windows(2).all(|pair| pair[0].rows() == pair[1].columns());
        if layers.is_empty() || !fits {
            let widths: Vec<_> = layers.iter().map(|it| [it.columns(), it.rows()]).collect();
            return Err(Error::Config(format!("an mlp of layers {widths:?} (inputs, outputs)")));
        }
        Ok(Mlp { layers, activation })
    }

    pub fn inputs(&self) -> usize {
        self.layers[0].columns()
    }

    pub fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].rows()
    }

    /// Workspace bytes of so many rows.
    pub fn workspace_bytes(&self, ops: &Ops, rows: usize) -> usize {
        let bytes = |layer: &Linear| Workspace::bytes_for(ops.activation(), [rows, layer.rows()]);
        self.layers.iter().map(bytes).sum()
    }

    /// x: act `[rows, inputs]` · out: f32 `[rows, outputs]`
    pub fn forward(&self, ctx: HstuStepCtx<'_>, x: View<'_>, out: ViewMut<'_>) {
        assert_eq!(out.dtype(), DType::F32, "out of an mlp");
        let (HstuStepCtx { ops, workspace, .. }, [rows, _]) = (ctx, x.dims());
        let (last, before) = self.layers.split_last().expect("there are layers");
        let mut hidden: Option<ViewMut<'_>> = None;
        for layer in before {
            let mut next = workspace.take(ops.activation(), [rows, layer.rows()]);
            let input = hidden.as_ref().map_or(x, ViewMut::as_view);
            ops.project(input, RowKinds::Prompt, layer, next.reborrow());
            ops.activate(next.reborrow(), self.activation);
            hidden = Some(next);
        }
        let input = hidden.as_ref().map_or(x, ViewMut::as_view);
        ops.project(input, RowKinds::Prompt, last, out);
    }
}
