//! The device that is checked, and the ops on it.

use std::sync::Arc;

use anyhow::Result;
use terrace_device::DType;
use terrace_device::cuda::CudaDevice;
use terrace_engine::DeviceChoice;
use terrace_kernels::{CpuOptions, CudaOptions, Error, Ops, PageLayout};

/// Whether a row's result may depend on the other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    Free,
    Deterministic,
}

pub enum TestedDevice {
    Cpu { threads: usize },
    Cuda { device: Arc<CudaDevice>, threads: usize },
}

impl TestedDevice {
    pub fn find(choice: DeviceChoice, threads: usize) -> Result<Self> {
        Ok(match choice.find()? {
            None => TestedDevice::Cpu { threads },
            Some(gpu) => TestedDevice::Cuda { device: CudaDevice::open(&gpu)?, threads },
        })
    }

    pub fn name(&self) -> String {
        match self {
            TestedDevice::Cpu { .. } => "cpu".into(),
            TestedDevice::Cuda { device, .. } => {
                format!("cuda:{} {}", device.info().ordinal, device.info().name)
            }
        }
    }

    /// Ops for activations of a type and pages of a layout.
    pub fn ops(&self, activation: DType, layout: PageLayout) -> Result<Ops, Error> {
        match self {
            TestedDevice::Cpu { threads } => {
                Ops::cpu(CpuOptions { threads: *threads, level: None })
            }
            TestedDevice::Cuda { device, threads } => {
                Self::cuda_ops(device, *threads, activation, layout, Batching::Free)
            }
        }
    }

    pub fn cuda_ops(
        device: &Arc<CudaDevice>,
        threads: usize,
        activation: DType,
        layout: PageLayout,
        batching: Batching,
    ) -> Result<Ops, Error> {
        Ops::cuda(CudaOptions {
            device: Arc::clone(device),
            activation,
            libs: Vec::new(),
            threads,
            deterministic: batching == Batching::Deterministic,
            layout,
        })
    }

    /// Whether its arithmetic can be in bf16.
    pub fn knows_bf16(&self) -> bool {
        matches!(self, TestedDevice::Cuda { .. })
    }
}
