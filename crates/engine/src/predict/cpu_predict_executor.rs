//! Computes batches on the host's own processor.

use std::sync::Arc;
use std::time::Instant;

use terrace_device::{View, ViewMut, Workspace};
use terrace_embedding::{HostRows, MissingRows};
use terrace_kernels::{Ops, PoolRowsArgs};
use terrace_model::ctr::{CtrCtx, CtrModel, CtrNetwork, CtrWeights};

use super::predict_executor::{Computed, PredictExecutor};
use super::predict_tables::PredictTables;
use super::samples::Samples;
use crate::error::Error;

pub struct CpuPredictExecutor {
    ops: Ops,
    network: Arc<CtrNetwork>,
    model: CtrModel,
    tables: PredictTables,
    /// Of the tables' hot caches, which it asks.
    cache: usize,
    workspace: Workspace,
    rows: HostRows,
    /// The row of each key.
    index: Vec<i32>,
}

impl CpuPredictExecutor {
    /// For batches of up to so many samples.
    pub fn new(
        ops: Ops,
        network: &Arc<CtrNetwork>,
        weights: &CtrWeights,
        tables: PredictTables,
        cache: usize,
        max_samples: usize,
    ) -> Result<Self, Error> {
        let model = CtrModel::place(&ops, network, weights)?;
        let bytes = model.workspace_bytes(&ops, max_samples);
        Ok(CpuPredictExecutor {
            workspace: Workspace::new(&ops.device(), bytes)?,
            ops,
            network: Arc::clone(network),
            model,
            tables,
            cache,
            rows: HostRows::default(),
            index: Vec::new(),
        })
    }
}

impl PredictExecutor for CpuPredictExecutor {
    fn run(&mut self, samples: &Samples, out: &mut [f32]) -> Result<Computed, Error> {
        let CpuPredictExecutor { ops, model, tables, cache, workspace, rows, index, .. } = self;
        workspace.reset();
        let mut step = model.step(CtrCtx { ops, workspace }, samples.count);
        let layers = &model.inputs().tables;
        for (at, (keys, layer)) in samples.tables.iter().zip(layers).enumerate() {
            let table = &tables.tables[at];
            table.look_up_unique(*cache, &keys.keys, MissingRows::AsConfigured, rows)?;
            index.clear();
            index.extend(rows.inverse().iter().map(|row| *row as i32));
            let args = PoolRowsArgs {
                rows: View::of(rows.rows(), [rows.unique(), layer.dim]),
                index: View::of(index, [index.len()]),
                offsets: View::of(&keys.offsets, [keys.offsets.len()]),
                combiner: layer.combiner,
            };
            ops.pool_rows(&args, step.pooled(at));
        }
        let input = Instant::now();
        let dense = model.inputs().dense_dim;
        let dense = (dense > 0).then(|| View::of(&samples.dense, [samples.count, dense]));
        step.run(dense, ViewMut::of(out, [samples.count, model.output_width()]));
        Ok(Computed { input, compute: Instant::now() })
    }

    fn replace_weights(&mut self, weights: &CtrWeights) -> Result<(), Error> {
        self.model = CtrModel::place(&self.ops, &self.network, weights)?;
        Ok(())
    }
}
