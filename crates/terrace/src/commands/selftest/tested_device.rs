//! The device that is checked, and the ops on it.

use std::sync::Arc;

use anyhow::Result;
use terrace_device::DType;
use terrace_device::cuda::CudaDevice;
use terrace_engine::DeviceChoice;
use terrace_kernels::{CpuOptions, Error, Ops, PageLayout};

pub enum TestedDevice {
    Cpu { threads: usize },
    Cuda { device: Arc<CudaDevice> },
}

impl TestedDevice {
    pub fn find(choice: DeviceChoice, threads: usize) -> Result<Self> {
        Ok(match choice.find()? {
            None => TestedDevice::Cpu { threads },
            Some(gpu) => TestedDevice::Cuda { device: CudaDevice::open(&gpu)? },
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
    pub fn ops(&self, _activation: DType, _layout: PageLayout) -> Result<Ops, Error> {
        match self {
            TestedDevice::Cpu { threads } => {
                Ops::cpu(CpuOptions { threads: *threads, level: None })
            }
            TestedDevice::Cuda { .. } => {
                let what = "whole models".into();
                let message = "they are checked on the CPU only; say --device cpu".into();
                Err(terrace_device::Error::Cuda { what, message }.into())
            }
        }
    }

    /// Whether its arithmetic can be in bf16.
    pub fn knows_bf16(&self) -> bool {
        matches!(self, TestedDevice::Cuda { .. })
    }
}
