//! Computes batches on the host's own processor.
//!
//! Rows go from the hot caches straight into the network. Where a table has none, or a key was not
//! there, its rows are looked up as the table is configured.

use std::sync::Arc;
use std::time::Instant;

use terrace_device::{View, ViewMut, Workspace};
use terrace_embedding::{HostRows, MissingRows, ServedTable};
use terrace_kernels::{Ops, PoolHostArgs, PoolRowsArgs};
use terrace_model::ctr::{CtrCtx, CtrModel, CtrNetwork, CtrTable, CtrWeights};

use super::predict_executor::{Computed, PredictExecutor};
use super::predict_tables::PredictTables;
use super::samples::{Samples, TableKeys};
use crate::error::Error;

pub struct CpuPredictExecutor {
    ops: Ops,
    network: Arc<CtrNetwork>,
    model: CtrModel,
    tables: PredictTables,
    /// Of the tables' hot caches, which it asks.
    cache: usize,
    workspace: Workspace,
    missing: MissingMemory,
}

/// For look-ups of keys that are not all in a hot cache.
#[derive(Default)]
struct MissingMemory {
    rows: HostRows,
    /// The row of each key.
    index: Vec<i32>,
    /// Of each table, look-ups until its hot cache is trusted again, after one that missed.
    distrust: Vec<u32>,
}

/// A look-up that missed is followed by others that do: so many are done without a trial.
const DISTRUSTED: u32 = 15;

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
        let distrust = vec![0; tables.tables.len()];
        Ok(CpuPredictExecutor {
            workspace: Workspace::new(&ops.device(), bytes)?,
            ops,
            network: Arc::clone(network),
            model,
            tables,
            cache,
            missing: MissingMemory { distrust, ..MissingMemory::default() },
        })
    }
}

impl PredictExecutor for CpuPredictExecutor {
    fn run(&mut self, samples: &Samples, out: &mut [f32]) -> Result<Computed, Error> {
        let CpuPredictExecutor { ops, model, tables, cache, workspace, missing, .. } = self;
        workspace.reset();
        let mut step = model.step(CtrCtx { ops, workspace }, samples.count);
        let layers = &model.inputs().tables;
        for (at, (keys, layer)) in samples.tables.iter().zip(layers).enumerate() {
            let table = &tables.tables[at];
            let begun = Instant::now();
            let is_trusted = missing.distrust[at] == 0;
            if is_trusted && pool_cached(ops, table, *cache, keys, layer, step.pooled(at)) {
                table.count_cached(keys.keys().len(), begun);
                continue;
            }
            missing.look_up(at, table, *cache, keys)?;
            ops.pool_rows(&missing.args(keys, layer), step.pooled(at));
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

/// Whether all keys were in the table's hot cache.
fn pool_cached(
    ops: &Ops,
    table: &ServedTable,
    cache: usize,
    keys: &TableKeys,
    layer: &CtrTable,
    out: ViewMut<'_>,
) -> bool {
    let args = PoolHostArgs {
        keys: keys.keys(),
        offsets: keys.offsets(),
        combiner: layer.combiner,
        default_value: table.spec().default_value,
    };
    table.host_cache(cache).is_some_and(|cache| cache.pool(ops, args, out))
}

impl MissingMemory {
    fn look_up(
        &mut self,
        at: usize,
        table: &Arc<ServedTable>,
        cache: usize,
        keys: &TableKeys,
    ) -> Result<(), Error> {
        let MissingMemory { rows, index, distrust } = self;
        let stats = table.look_up_unique(cache, keys.keys(), MissingRows::AsConfigured, rows)?;
        distrust[at] = match stats.hits == stats.unique {
            true => distrust[at].saturating_sub(1),
            false => DISTRUSTED,
        };
        index.clear();
        index.extend(rows.inverse().iter().map(|row| *row as i32));
        Ok(())
    }

    /// What was looked up last.
    fn args<'a>(&'a self, keys: &'a TableKeys, layer: &CtrTable) -> PoolRowsArgs<'a> {
        PoolRowsArgs {
            rows: View::of(self.rows.rows(), [self.rows.unique(), layer.dim]),
            index: View::of(&self.index, [self.index.len()]),
            offsets: View::of(keys.offsets(), [keys.offsets().len()]),
            combiner: layer.combiner,
        }
    }
}
