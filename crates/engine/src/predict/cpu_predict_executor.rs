//! Computes batches on the host's own processor.

use std::sync::Arc;
use std::time::Instant;

use terrace_device::{View, ViewMut, Workspace};
use terrace_kernels::Ops;
use terrace_model::ctr::{CtrCtx, CtrModel, CtrNetwork, CtrWeights};

use super::host_pooling::HostPooling;
use super::predict_executor::{Computed, PredictExecutor};
use super::predict_tables::PredictTables;
use super::samples::Samples;
use crate::error::Error;

pub struct CpuPredictExecutor {
    ops: Ops,
    network: Arc<CtrNetwork>,
    model: CtrModel,
    pooling: HostPooling,
    workspace: Workspace,
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
            pooling: HostPooling::new(tables, cache),
        })
    }
}

impl PredictExecutor for CpuPredictExecutor {
    fn run(&mut self, samples: &Samples, out: &mut [f32]) -> Result<Computed, Error> {
        let CpuPredictExecutor { ops, model, pooling, workspace, .. } = self;
        workspace.reset();
        let mut step = model.step(CtrCtx { ops, workspace }, samples.count);
        for (at, (keys, table)) in samples.tables.iter().zip(&model.inputs().tables).enumerate() {
            pooling.pool(ops, at, keys, table.combiner, step.pooled(at))?;
        }
        let input = Instant::now();
        let dense = model.inputs().dense_dim;
        let dense = (dense > 0).then(|| View::of(&samples.dense, [samples.count, dense]));
        step.run(dense, ViewMut::of(out, [samples.count, model.output_width()]));
        Ok(Computed { input, compute: Instant::now() })
    }

    fn replace_weights(&mut self, safetensors: &[u8]) -> Result<(), Error> {
        let weights = CtrWeights::from_safetensors(&self.network, safetensors)?;
        self.model = CtrModel::place(&self.ops, &self.network, &weights)?;
        Ok(())
    }
}
