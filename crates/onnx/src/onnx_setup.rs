//! From an ONNX file and its tables to a model that predicts.

use std::sync::Arc;

use terrace_embedding::KeyKind;
use terrace_engine::Error;
use terrace_engine::predict::{
    BatchPolicy, PredictExecutor, PredictModel, PredictParts, PredictTables, RequestShape,
    SlotsOfTable,
};
use terrace_kernels::{Compute, CpuOptions, Ops};

use crate::onnx_network::OnnxNetwork;
use crate::onnx_predict_executor::OnnxPredictExecutor;

pub struct OnnxSetup {
    pub name: String,
    pub network: OnnxNetwork,
    pub tables: PredictTables,
    /// Most keys of a sample, by table, where the configuration says so; else one a slot.
    pub keys_most: Vec<Option<usize>>,
    pub key_kind: KeyKind,
    pub batching: BatchPolicy,
    /// Of each instance, which of the tables' hot caches it looks up through.
    pub caches: Vec<usize>,
}

impl OnnxSetup {
    pub fn start(self) -> Result<PredictModel, Error> {
        let inputs = self.network.inputs();
        let shape = RequestShape {
            dense: inputs.dense_dim,
            tables: SlotsOfTable::all(inputs, &self.keys_most),
            key_kind: self.key_kind,
            outputs: self.network.output_width(),
            max_samples: self.batching.max_samples,
        };
        let network = Arc::new(self.network);
        let executor = |cache: &usize| {
            let ops = Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::F32 })?;
            let (network, tables) = (Arc::clone(&network), self.tables.clone());
            let executor = OnnxPredictExecutor::new(ops, network, tables, *cache);
            Ok(Box::new(executor) as Box<dyn PredictExecutor>)
        };
        PredictModel::start(PredictParts {
            name: self.name,
            shape,
            batching: self.batching,
            executors: self.caches.iter().map(executor).collect::<Result<_, Error>>()?,
            weights: None,
        })
    }
}
