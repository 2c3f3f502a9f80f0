//! A golden model run over requests.

use terrace_device::{DType, Device, Workspace};
use terrace_golden::GoldenTensors;
use terrace_kernels::{Ops, PoolRowsArgs};

use super::golden_table::GoldenTable;
use super::request_keys::{TableKeys, keys_by_table};
use crate::ctr::{CtrCtx, CtrModel};
use crate::error::Error;
use crate::golden::placed::Placed;

pub(super) struct ModelRun<'a> {
    pub ops: &'a Ops,
    pub model: CtrModel,
    pub tables: &'a [GoldenTable],
}

/// What a request gave.
pub(super) struct RunFindings {
    /// `[samples, slots, dim]` of each table
    pub pooled: Vec<Vec<f32>>,
    /// `[samples, outputs]`
    pub outputs: Vec<f32>,
}

impl ModelRun<'_> {
    pub fn run(&self, request: &GoldenTensors) -> Result<RunFindings, Error> {
        let (ops, device, inputs) = (self.ops, self.ops.device(), self.model.inputs());
        let keys = keys(request)?;
        let row_index = request.i32s("ROWINDEX")?;
        let asked = keys_by_table(&inputs.tables, &keys, row_index)
            .map_err(|problem| request.malformed(problem))?;
        let slots: usize = inputs.tables.iter().map(|table| table.slots).sum();
        let samples = (row_index.len() - inputs.tables.len()) / slots.max(1);
        let dense = match inputs.dense_dim {
            0 => None,
            dim => Some(Placed::f32s(&device, request.f32s("DES")?, [samples, dim])?),
        };
        let workspace = Workspace::new(&device, self.model.workspace_bytes(ops, samples).max(1))?;
        let mut step = self.model.step(CtrCtx { ops, workspace: &workspace }, samples);
        let mut pooled = Vec::new();
        for (index, (asked, table)) in asked.iter().zip(self.tables).enumerate() {
            let about = &inputs.tables[index];
            let rows = PlacedRows::new(&device, asked, table, about.dim)?;
            let mut apart = Placed::zeros(&device, DType::F32, [samples, about.pooled_width()])?;
            let args = PoolRowsArgs {
                rows: rows.rows.view(),
                index: rows.index.view(),
                offsets: rows.offsets.view(),
                combiner: about.combiner,
            };
            ops.pool_rows(&args, step.pooled(index));
            ops.pool_rows(&args, apart.view_mut());
            pooled.push(apart.numbers(&device)?);
        }
        let width = self.model.output_width();
        let mut out = Placed::zeros(&device, DType::F32, [samples, width])?;
        step.run(dense.as_ref().map(Placed::view), out.view_mut());
        Ok(RunFindings { pooled, outputs: out.numbers(&device)? })
    }
}

/// A table and a request's keys where the ops compute.
struct PlacedRows {
    rows: Placed,
    index: Placed,
    offsets: Placed,
}

impl PlacedRows {
    fn new(
        device: &Device,
        asked: &TableKeys,
        table: &GoldenTable,
        dim: usize,
    ) -> Result<Self, Error> {
        let index: Vec<i32> = asked.keys.iter().map(|key| table.row(*key)).collect();
        Ok(PlacedRows {
            rows: Placed::f32s(device, &table.rows, [table.rows.len() / dim, dim])?,
            index: Placed::i32s(device, &index, [index.len()])?,
            offsets: Placed::i32s(device, &asked.offsets, [asked.offsets.len()])?,
        })
    }
}

/// Keys of either type.
fn keys(request: &GoldenTensors) -> Result<Vec<i64>, Error> {
    Ok(match request.u32s("CATCOLUMN") {
        Ok(keys) => keys.iter().map(|key| i64::from(*key)).collect(),
        Err(_) => request.i64s("CATCOLUMN")?.to_vec(),
    })
}
