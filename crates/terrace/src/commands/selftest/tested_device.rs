//! The device that is checked, and the ops on it.

use std::sync::Arc;

use anyhow::{Result, bail};
use terrace_device::DType;
use terrace_device::cuda::CudaDevice;
use terrace_engine::DeviceChoice;
use terrace_kernels::{Compute, CpuLevel, CpuOptions, CudaOptions, Error, Ops, PageLayout};

/// Whether a row's result may depend on the other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    Free,
    Deterministic,
}

pub enum TestedDevice {
    /// At one level of instructions, or at the best there is.
    Cpu {
        threads: usize,
        level: Option<CpuLevel>,
    },
    Cuda {
        device: Arc<CudaDevice>,
        threads: usize,
    },
}

impl TestedDevice {
    pub fn find(choice: DeviceChoice, threads: usize, level: Option<CpuLevel>) -> Result<Self> {
        Ok(match choice.find()? {
            None => TestedDevice::Cpu { threads, level },
            Some(_) if level.is_some() => bail!("--level is the CPU's; add --device cpu"),
            Some(gpu) => TestedDevice::Cuda { device: CudaDevice::open(&gpu)?, threads },
        })
    }

    pub fn name(&self) -> String {
        match self {
            TestedDevice::Cpu { level, .. } => {
                format!("cpu, {}", level.unwrap_or_else(CpuLevel::detect).name())
            }
            TestedDevice::Cuda { device, .. } => {
                format!("cuda:{} {}", device.info().ordinal, device.info().name)
            }
        }
    }

    pub fn threads(&self) -> usize {
        match self {
            TestedDevice::Cpu { threads, .. } | TestedDevice::Cuda { threads, .. } => *threads,
        }
    }

    /// Ops for activations of a type and pages of these layouts. On the CPU, f32 or the default
    /// arithmetic.
    pub fn ops(
        &self,
        activation: DType,
        layouts: impl IntoIterator<Item = PageLayout>,
    ) -> Result<Ops, Error> {
        match self {
            TestedDevice::Cpu { threads, level } => {
                let compute = match activation {
                    DType::F32 => Compute::F32,
                    _ => Compute::Fast,
                };
                Ops::cpu(CpuOptions { threads: *threads, level: *level, compute })
            }
            TestedDevice::Cuda { device, threads } => {
                Self::cuda_ops(device, *threads, activation, layouts, Batching::Free)
            }
        }
    }

    pub fn cuda_ops(
        device: &Arc<CudaDevice>,
        threads: usize,
        activation: DType,
        layouts: impl IntoIterator<Item = PageLayout>,
        batching: Batching,
    ) -> Result<Ops, Error> {
        Ops::cuda(CudaOptions {
            device: Arc::clone(device),
            activation,
            libs: Vec::new(),
            threads,
            deterministic: batching == Batching::Deterministic,
            layouts: layouts.into_iter().collect(),
        })
    }
}
