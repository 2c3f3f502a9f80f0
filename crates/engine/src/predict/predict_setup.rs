//! From a network, its weights and its tables to a model that predicts.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaInfo};
use terrace_embedding::{KeyKind, ParameterServer};
use terrace_kernels::{Compute, CpuOptions, CudaOptions, Ops};
use terrace_model::ctr::{CtrNetwork, CtrWeights};

use super::batch_policy::BatchPolicy;
use super::cpu_predict_executor::CpuPredictExecutor;
use super::cuda::CudaPredictExecutor;
use super::predict_executor::PredictExecutor;
use super::predict_model::{PredictModel, PredictParts};
use super::predict_tables::PredictTables;
use super::request_shape::{RequestShape, SlotsOfTable};
use super::weight_source::{FedWeights, WeightSource};
use crate::error::Error;

pub struct PredictSetup {
    pub name: String,
    pub network: Arc<CtrNetwork>,
    pub weights: CtrWeights,
    pub tables: PredictTables,
    /// Most keys of a sample, by table, where the configuration says so; else the network does.
    pub keys_most: Vec<Option<usize>>,
    pub key_kind: KeyKind,
    pub batching: BatchPolicy,
    /// One for each instance.
    pub places: Vec<InstancePlace>,
    /// Products in 16 bits.
    pub mixed_precision: bool,
    /// Worker threads of an instance.
    pub threads: usize,
    /// Folders to look for cuBLASLt in.
    pub cuda_libs: Vec<std::path::PathBuf>,
}

/// Where an instance computes, and through which of the tables' hot caches it looks up.
#[derive(Clone, Debug)]
pub struct InstancePlace {
    /// `None`: on the CPU.
    pub gpu: Option<CudaInfo>,
    pub cache: usize,
}

impl PredictSetup {
    /// Places the network for each instance, and starts them.
    pub fn start(self) -> Result<PredictModel, Error> {
        let (shape, executors) = (self.shape(), self.executors()?);
        let mut batching = self.batching;
        if self.network.mixes_samples() {
            // Who is computed with others would get another answer.
            batching.joining = None;
        }
        let server: Arc<ParameterServer> = Arc::clone(&self.tables.server);
        let weights: Arc<dyn WeightSource> =
            Arc::new(FedWeights { server, model: self.name.clone() });
        PredictModel::start(PredictParts {
            name: self.name,
            shape,
            batching,
            executors,
            weights: Some(weights),
        })
    }

    /// Places the network for each instance; batches are given to them without a queue.
    pub fn executors(&self) -> Result<Vec<Box<dyn PredictExecutor>>, Error> {
        let shape = self.shape();
        self.places.iter().map(|place| self.executor(place, &shape)).collect()
    }

    fn shape(&self) -> RequestShape {
        let inputs = self.network.inputs();
        RequestShape {
            dense: inputs.dense_dim,
            tables: SlotsOfTable::all(inputs, &self.keys_most),
            key_kind: self.key_kind,
            outputs: self.network.output_width(),
            max_samples: self.batching.max_samples,
        }
    }

    fn executor(
        &self,
        place: &InstancePlace,
        shape: &RequestShape,
    ) -> Result<Box<dyn PredictExecutor>, Error> {
        let (network, weights, tables) = (&self.network, &self.weights, self.tables.clone());
        match &place.gpu {
            None => {
                let compute = if self.mixed_precision { Compute::Fast } else { Compute::F32 };
                let ops = Ops::cpu(CpuOptions { threads: self.threads, level: None, compute })?;
                let executor = CpuPredictExecutor::new(
                    ops,
                    network,
                    weights,
                    tables,
                    place.cache,
                    shape.max_samples,
                )?;
                Ok(Box::new(executor))
            }
            Some(gpu) => {
                let ops = Ops::cuda(CudaOptions {
                    device: CudaDevice::open(gpu)?,
                    activation: if self.mixed_precision { DType::F16 } else { DType::F32 },
                    libs: self.cuda_libs.clone(),
                    // They copy large batches.
                    threads: self.threads.clamp(1, 4),
                    deterministic: false,
                    portable_chunks: false,
                    layouts: Vec::new(),
                })?;
                Ok(Box::new(CudaPredictExecutor::new(ops, network, weights, tables, shape)?))
            }
        }
    }
}
