//! What moves the bytes.

use std::fmt;

use terrace_device::Device;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveWay {
    /// The host itself: for the CPU, whose pages are host memory too.
    Host,
    /// The GPU's copy engines, one call for all pieces of a part; drivers since CUDA 12.8. They
    /// reach the link's speed, and take no multiprocessor from kernels.
    BatchedCopies,
    /// The GPU's copy engines, a call for each piece: slow where pieces are small.
    PieceCopies,
    /// A kernel of so many blocks that reads and writes pinned memory. It takes multiprocessors
    /// from other kernels, and those that count on all of them lose more than these; what it writes
    /// to the host fast fills the ways to memory, and can halve the speed of everything else.
    Kernel { blocks: usize },
}

impl MoveWay {
    /// Enough blocks to fill a PCIe 5 link in layers of 64 KiB, and no more.
    const KERNEL: MoveWay = MoveWay::Kernel { blocks: 4 };

    /// The way to the device that is fast in small pieces and slows kernels least.
    pub fn to_device(device: &Device) -> MoveWay {
        match device {
            Device::Cpu => MoveWay::Host,
            Device::Cuda(gpu) if gpu.has_batched_copies() => MoveWay::BatchedCopies,
            Device::Cuda(_) => MoveWay::KERNEL,
        }
    }

    /// The way to the host, for whole pages: nobody waits for their layers one by one.
    pub fn to_host(device: &Device) -> MoveWay {
        match device {
            Device::Cpu => MoveWay::Host,
            Device::Cuda(gpu) if gpu.has_batched_copies() => MoveWay::BatchedCopies,
            Device::Cuda(_) => MoveWay::PieceCopies,
        }
    }

    /// All that a device has, the best way to it first.
    pub fn all(device: &Device) -> Vec<MoveWay> {
        let others = match device {
            Device::Cpu => vec![],
            Device::Cuda(_) => {
                let kernels = [4, 8, 16, 32].map(|blocks| MoveWay::Kernel { blocks });
                [&[MoveWay::PieceCopies], &kernels[..]].concat()
            }
        };
        let best = MoveWay::to_device(device);
        let others = others.into_iter().filter(|way| *way != best);
        [best].into_iter().chain(others).collect()
    }
}

impl fmt::Display for MoveWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveWay::Host => f.write_str("host"),
            MoveWay::BatchedCopies => f.write_str("batched copies"),
            MoveWay::PieceCopies => f.write_str("single copies"),
            MoveWay::Kernel { blocks } => write!(f, "kernel, {blocks} blocks"),
        }
    }
}
