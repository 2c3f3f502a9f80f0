//! Products of one input where their device wants them, with the branches beside them.

use std::sync::Arc;

use terrace_device::{View, ViewMut};
use terrace_kernels::{BiasedWeight, GatedArgs, Linear, Matrix, Ops, RowKinds};

use crate::adapter::{Adapter, AdapterBranch, BranchedProduct, merge, merges_into};
use crate::decoder::layer_rows::LayerRows;
use crate::decoder::placed_branch::PlacedBranch;
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;

/// One product, or several whose outputs lie side by side.
pub(super) struct PlacedProduct {
    pub linear: Arc<Linear>,
    branches: Vec<PlacedBranch>,
}

/// What products are placed with.
#[derive(Clone, Copy)]
pub(super) struct Placing<'a> {
    pub ops: &'a Ops,
    pub spec: &'a DecoderSpec,
    pub adapter: Option<&'a Adapter>,
}

impl PlacedProduct {
    /// Without branches.
    pub fn plain(linear: Linear) -> Self {
        PlacedProduct { linear: Arc::new(linear), branches: Vec::new() }
    }

    /// Of an embedding table that scores too.
    pub fn of_table(table: &Arc<Linear>) -> Self {
        PlacedProduct { linear: Arc::clone(table), branches: Vec::new() }
    }

    /// All matrices' bytes.
    pub fn bytes(&self) -> usize {
        self.linear.bytes() + self.branches.iter().map(PlacedBranch::bytes).sum::<usize>()
    }

    pub fn branches(&self) -> usize {
        self.branches.len()
    }

    /// Of its widest branch; 0 without one.
    pub fn rank(&self) -> usize {
        self.branches.iter().map(PlacedBranch::rank).max().unwrap_or(0)
    }

    /// x: act `[tokens, columns]` · inner: rows of at least `rank` · out: act or f32
    /// `[tokens, rows]`
    pub fn project(
        &self,
        ops: &Ops,
        x: View<'_>,
        row_kinds: RowKinds<'_>,
        inner: &mut LayerRows<'_>,
        mut out: ViewMut<'_>,
    ) {
        ops.project(x, row_kinds, &self.linear, out.reborrow());
        for branch in &self.branches {
            branch.apply(ops, x, inner, out.reborrow());
        }
    }

    /// Of a gate and an up product, which `args` has too.
    pub fn project_gated(&self, ops: &Ops, args: GatedArgs<'_>, inner: &mut LayerRows<'_>) {
        if self.branches.is_empty() {
            return ops.project_gated(args);
        }
        let GatedArgs { x, row_kinds, activation, mut both, out, .. } = args;
        self.project(ops, x, row_kinds, inner, both.reborrow());
        let ([_, width], both) = (out.dims(), both.as_view());
        let [gates, ups] = [0, width].map(|start| both.columns(start, width));
        let branches = ops.branches().expect("its branches were placed");
        branches.gate(gates, ups, activation, out);
    }
}

impl Placing<'_> {
    /// Products whose outputs lie side by side.
    pub fn stacked<const N: usize>(
        &self,
        mut parts: [(BranchedProduct, BiasedWeight); N],
    ) -> Result<PlacedProduct, Error> {
        let branches = self.adapt_all(&mut parts)?;
        let weights = parts.map(|(_, biased)| biased);
        let linear = self.ops.place(weights.into())?;
        Ok(PlacedProduct { linear: Arc::new(linear), branches })
    }

    /// The two products of a gated unit.
    pub fn gated(
        &self,
        mut parts: [(BranchedProduct, BiasedWeight); 2],
    ) -> Result<PlacedProduct, Error> {
        let branches = self.adapt_all(&mut parts)?;
        let [gate, up] = parts.map(|(_, biased)| biased);
        // Branches want gates and ups side by side.
        let linear = match branches.is_empty() {
            true => self.ops.place_gated(gate, up)?,
            false => self.ops.place(vec![gate, up])?,
        };
        Ok(PlacedProduct { linear: Arc::new(linear), branches })
    }

    /// Whether the head gets a branch that becomes a part of its weight.
    pub fn merges_into_head(&self, weight: &Matrix) -> bool {
        let branch = self.branch_of(BranchedProduct::Head);
        branch.is_some_and(|branch| merges_into(&branch, weight.format()))
    }

    /// The head whose rows are the embedding table's, `[vocab, hidden]`, which is placed.
    pub fn tied_head(&self, table: Matrix, placed: &Arc<Linear>) -> Result<PlacedProduct, Error> {
        let mut parts = [(BranchedProduct::Head, BiasedWeight { weight: table, bias: None })];
        let branches = self.adapt_all(&mut parts)?;
        Ok(PlacedProduct { linear: Arc::clone(placed), branches })
    }

    fn branch_of(&self, product: BranchedProduct) -> Option<AdapterBranch> {
        self.adapter?.branch_of(product, self.spec)
    }

    /// Merges branches into the weights; gives those that are computed beside them.
    fn adapt_all(
        &self,
        parts: &mut [(BranchedProduct, BiasedWeight)],
    ) -> Result<Vec<PlacedBranch>, Error> {
        let mut branches = Vec::new();
        let mut first = 0;
        for (product, biased) in parts {
            if let Some(branch) = self.branch_of(*product) {
                let placed = self.adapt(&branch, biased, first)?;
                let placed = placed.ok_or_else(|| self.no_numbers(*product, biased))?;
                branches.extend(placed);
            }
            first += biased.weight.rows();
        }
        Ok(branches)
    }

    /// The branch where it stays one; `None` where weight and branch give what is no number.
    fn adapt(
        &self,
        branch: &AdapterBranch,
        biased: &mut BiasedWeight,
        first: usize,
    ) -> Result<Option<Option<PlacedBranch>>, Error> {
        if !merges_into(branch, biased.weight.format()) {
            return Ok(PlacedBranch::place(self.ops, branch, biased, first)?.map(Some));
        }
        let merged = merge(&biased.weight, branch, self.ops.workers())?;
        Ok(merged.map(|merged| {
            biased.weight.unload();
            biased.weight = merged;
            None
        }))
    }

    fn no_numbers(&self, product: BranchedProduct, biased: &BiasedWeight) -> Error {
        let name = self.adapter.map_or("", Adapter::name);
        let format = biased.weight.format().name();
        let problem = format!("{product} with its branch has numbers that {format} cannot hold");
        Error::adapter(name, problem)
    }
}
