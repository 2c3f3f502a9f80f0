//! The device that is checked, and the ops on it.

use std::sync::Arc;

use anyhow::{Result, bail};
use terrace_device::DType;
use terrace_device::cuda::CudaDevice;
use terrace_engine::DeviceChoice;
use terrace_kernels::{Compute, CpuLevel, CpuOptions, CudaOptions, Error, Ops, PageLayout};

/// Dense pages that kernels are loaded for at first; suites bring others, or use none.
pub const PAGES: PageLayout = PageLayout {
    layers: 1,
    kv_heads: 1,
    page_tokens: 16,
    key_dim: 64,
    value_dim: 64,
    dtype: DType::F32,
};

/// How a GPU's attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attending {
    /// As fast as the GPU can.
    Free,
    /// No row's result depends on the other rows.
    Deterministic,
    /// Chunks with the kernels of GPUs other than Hopper.
    Portable,
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
        attending: Attending,
    },
}

impl TestedDevice {
    pub fn find(choice: DeviceChoice, threads: usize, level: Option<CpuLevel>) -> Result<Self> {
        Ok(match choice.find()? {
            None => TestedDevice::Cpu { threads, level },
            Some(_) if level.is_some() => bail!("--level is the CPU's; add --device cpu"),
            Some(gpu) => {
                let attending = Attending::Free;
                TestedDevice::Cuda { device: CudaDevice::open(&gpu)?, threads, attending }
            }
        })
    }

    /// On a GPU, with the kernels of GPUs other than Hopper.
    pub fn with_portable_kernels(self) -> Result<Self> {
        match self {
            TestedDevice::Cpu { .. } => {
                bail!("--portable-kernels is for a GPU; add --device cuda:0")
            }
            TestedDevice::Cuda { device, threads, .. } => {
                Ok(TestedDevice::Cuda { device, threads, attending: Attending::Portable })
            }
        }
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
            TestedDevice::Cuda { device, threads, attending } => {
                Self::cuda_ops(device, *threads, activation, layouts, *attending)
            }
        }
    }

    pub fn cuda_ops(
        device: &Arc<CudaDevice>,
        threads: usize,
        activation: DType,
        layouts: impl IntoIterator<Item = PageLayout>,
        attending: Attending,
    ) -> Result<Ops, Error> {
        Ops::cuda(CudaOptions {
            device: Arc::clone(device),
            activation,
            libs: Vec::new(),
            threads,
            deterministic: attending == Attending::Deterministic,
            portable_chunks: attending == Attending::Portable,
            layouts: layouts.into_iter().collect(),
        })
    }
}
