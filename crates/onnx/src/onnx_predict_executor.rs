//! Computes batches whose dense part is an ONNX file, on one thread.

use std::sync::Arc;
use std::time::Instant;

use terrace_device::ViewMut;
use terrace_engine::Error;
use terrace_engine::predict::{Computed, HostPooling, PredictExecutor, PredictTables, Samples};
use terrace_kernels::Ops;

use crate::onnx_inputs::InputRole;
use crate::onnx_network::OnnxNetwork;

pub struct OnnxPredictExecutor {
    /// Pools rows.
    ops: Ops,
    network: Arc<OnnxNetwork>,
    pooling: HostPooling,
}

impl OnnxPredictExecutor {
    /// Looks up through these hot caches of the tables · ops: of the CPU
    pub fn new(ops: Ops, network: Arc<OnnxNetwork>, tables: PredictTables, cache: usize) -> Self {
        OnnxPredictExecutor { ops, network, pooling: HostPooling::new(tables, cache) }
    }
}

impl PredictExecutor for OnnxPredictExecutor {
    fn run(&mut self, samples: &Samples, out: &mut [f32]) -> Result<Computed, Error> {
        let OnnxPredictExecutor { ops, network, pooling } = self;
        let inputs = network.inputs();
        let mut batch = network.batch(samples.count).map_err(failed)?;
        for (at, (keys, table)) in samples.tables.iter().zip(&inputs.tables).enumerate() {
            network.fill(&mut batch, InputRole::Table(at), |rows| {
                let out = ViewMut::of(rows, [samples.count, table.pooled_width()]);
                pooling.pool(ops, at, keys, table.combiner, out)
            })?;
        }
        if 0 < inputs.dense_dim {
            network.fill(&mut batch, InputRole::Dense, |to| to.copy_from_slice(&samples.dense));
        }
        let input = Instant::now();
        network.compute(batch, out).map_err(failed)?;
        Ok(Computed { input, compute: Instant::now() })
    }

    fn replace_weights(&mut self, _: &[u8]) -> Result<(), Error> {
        Err(Error::Predict(
            "the weights of an ONNX file are part of it; serve a newer version of the model"
                .to_owned(),
        ))
    }
}

fn failed(problem: String) -> Error {
    Error::Predict(format!("the ONNX file: {problem}"))
}
