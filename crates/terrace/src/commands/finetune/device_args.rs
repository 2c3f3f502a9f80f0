//! `device`, `devices`: what a run computes on.

use anyhow::{Result, bail};
use clap::Args;
use terrace_device::cuda::{CudaDevice, CudaInfo, probe};
use terrace_engine::DeviceChoice;
use terrace_kernels::{CpuOptions, CudaOptions, Ops};

use super::precision::Precision;
use crate::byte_size::ByteSize;
use crate::options::at_least_one;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Devices")]
pub struct DeviceArgs {
    /// Where to compute: auto (the first GPU, or the CPU when there is none), cpu, or cuda:1; 1 is
    /// short for the latter, and 0 for auto. Of several devices, the first.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    pub device: DeviceChoice,

    /// Data-parallel ranks, whose gradients are averaged: so many GPUs, or on a CPU threads that
    /// share its cores.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = at_least_one::<usize>)]
    pub devices: usize,

    /// Most memory of each GPU that is taken, such as 24GiB. Left out: as much as there is.
    #[arg(long, value_name = "BYTES")]
    gpu_memory: Option<ByteSize>,

    /// Threads that compute on a CPU. Left out: one for each core.
    #[arg(long, value_name = "COUNT", value_parser = at_least_one::<usize>)]
    threads: Option<usize>,
}

fn device(text: &str) -> Result<DeviceChoice, String> {
    match text.parse() {
        Ok(0) => Ok(DeviceChoice::Auto),
        Ok(number) => Ok(DeviceChoice::Cuda(number)),
        Err(_) => text.parse(),
    }
}

impl DeviceArgs {
    /// The ops of each rank.
    pub fn open(&self, precision: Precision) -> Result<Vec<Ops>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (self.threads.unwrap_or(cores) / self.devices).max(1);
        let Some(first) = self.device.find()? else {
            let options = CpuOptions { threads, level: None, compute: precision.compute() };
            return (0..self.devices).map(|_| Ok(Ops::cpu(options)?)).collect();
        };
        let gpus = gpus_from(&first, self.devices)?;
        gpus.iter().map(|gpu| self.open_gpu(gpu, precision, threads)).collect()
    }

    fn open_gpu(&self, gpu: &CudaInfo, precision: Precision, threads: usize) -> Result<Ops> {
        let most = self.gpu_memory.map_or(usize::MAX, |ByteSize(bytes)| bytes);
        Ok(Ops::cuda(CudaOptions {
            device: CudaDevice::open_share(gpu, most)?,
            activation: precision.activation(),
            libs: Vec::new(),
            threads,
            deterministic: false,
            portable_chunks: false,
            layouts: Vec::new(),
        })?)
    }
}

/// That one, and those behind it.
fn gpus_from(first: &CudaInfo, count: usize) -> Result<Vec<CudaInfo>> {
    let mut found = probe().unwrap_or_default();
    found.retain(|gpu| first.ordinal <= gpu.ordinal);
    if found.len() < count {
        bail!(
            "--devices is {count}, and from cuda:{} on there are {} GPUs; give fewer, or --device \
             cpu for ranks that share the cores",
            first.ordinal,
            found.len()
        );
    }
    found.truncate(count);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_and_numbers() {
        for (text, wanted) in [
            ("auto", Some(DeviceChoice::Auto)),
            ("0", Some(DeviceChoice::Auto)),
            ("2", Some(DeviceChoice::Cuda(2))),
            ("cuda:0", Some(DeviceChoice::Cuda(0))),
            ("cpu", Some(DeviceChoice::Cpu)),
            ("gpu", None),
            ("-1", None),
        ] {
            assert_eq!(device(text).ok(), wanted, "{text}");
        }
    }
}
