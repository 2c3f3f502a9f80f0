//! Which computations give the same bits: what keys of content hold beside the content.
//!
//! Keys and values that one machine has computed may stand for those of another, or of the next
//! release, only where the same numbers come of the same input, bit for bit. That holds within a
//! class. Where prompt rows are computed otherwise than generated ones
//! ([`Ops::distinguishes_row_kinds`](crate::Ops::distinguishes_row_kinds)), a class has both, and
//! keys hold the row kind of each token.

use terrace_device::DType;

use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::Compute;

/// Raised by whoever changes a kernel, on any device, so that it gives other bits than before for
/// any input: another order of sums, another rounding, another tile. A change that only moves code
/// or saves time leaves it. What an older revision left in a store is then computed again.
pub const KERNEL_REVISION: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArithmeticClass {
    pub kernel_revision: u32,
    pub device: DeviceClass,
    /// No row's result depends on the other rows of its batch.
    pub deterministic: bool,
}

/// A kind of device, what it has of instructions, and which arithmetic is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    Cpu { level: CpuLevel, compute: Compute },
    Cuda { compute_capability: (u8, u8), activation: DType },
}

impl ArithmeticClass {
    /// Of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = 10;

    /// The CPU's ops never let a row's result depend on others.
    pub fn cpu(level: CpuLevel, compute: Compute) -> Self {
        let device = DeviceClass::Cpu { level, compute };
        ArithmeticClass { kernel_revision: KERNEL_REVISION, device, deterministic: true }
    }

    /// Stable bytes, for hashing; numbers of more than a byte are little-endian.
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 0 | 1, the version of this table |
    /// | 1..5 | the kernel revision |
    /// | 5 | the kind of device: 0 CPU, 1 CUDA |
    /// | 6 | CPU: level (0 reference, 1 AVX2, 2 AVX-512, 3 VNNI, 4 AMX); CUDA: major capability |
    /// | 7 | CPU: 0; CUDA: minor capability |
    /// | 8 | arithmetic; CPU: 0 fast, 1 f32; CUDA: the type of activations, 0 f32, 1 f16, 2 bf16 |
    /// | 9 | 1 where no row's result depends on its batch, else 0 |
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let ArithmeticClass { kernel_revision, device, deterministic } = *self;
        let [r0, r1, r2, r3] = kernel_revision.to_le_bytes();
        let [kind, major, minor, arithmetic] = match device {
            DeviceClass::Cpu { level, compute } => [0, level_number(level), 0, number_of(compute)],
            DeviceClass::Cuda { compute_capability: (major, minor), activation } => {
                [1, major, minor, activation_number(activation)]
            }
        };
        [1, r0, r1, r2, r3, kind, major, minor, arithmetic, u8::from(deterministic)]
    }
}

fn level_number(level: CpuLevel) -> u8 {
    match level {
        CpuLevel::Reference => 0,
        CpuLevel::Avx2 => 1,
        CpuLevel::Avx512 => 2,
        CpuLevel::Avx512Vnni => 3,
        CpuLevel::Amx => 4,
    }
}

fn number_of(compute: Compute) -> u8 {
    match compute {
        Compute::Fast => 0,
        Compute::F32 => 1,
    }
}

/// As `ActType` in prelude.cuh too. Panics for what activations cannot be.
pub(crate) fn activation_number(activation: DType) -> u8 {
    match activation {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Bf16 => 2,
        other => panic!("activations of {}", other.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let cpu = ArithmeticClass {
            kernel_revision: 0x0102_0304,
            ..ArithmeticClass::cpu(CpuLevel::Avx512Vnni, Compute::Fast)
        };
        assert_eq!(cpu.to_bytes(), [1, 4, 3, 2, 1, 0, 3, 0, 0, 1]);
        let device = DeviceClass::Cuda { compute_capability: (9, 0), activation: DType::Bf16 };
        let cuda = ArithmeticClass { kernel_revision: 7, device, deterministic: false };
        assert_eq!(cuda.to_bytes(), [1, 7, 0, 0, 0, 1, 9, 0, 2, 0]);
    }

    #[test]
    fn every_field_changes_the_bytes() {
        let cuda = |compute_capability, activation| {
            let device = DeviceClass::Cuda { compute_capability, activation };
            ArithmeticClass { kernel_revision: KERNEL_REVISION, device, deterministic: true }
        };
        let plain = ArithmeticClass::cpu(CpuLevel::Reference, Compute::Fast);
        let mut classes = vec![
            ArithmeticClass { kernel_revision: KERNEL_REVISION + 1, ..plain },
            ArithmeticClass { deterministic: false, ..plain },
            cuda((8, 0), DType::F32),
            cuda((8, 9), DType::F32),
            cuda((9, 0), DType::F32),
            cuda((9, 0), DType::F16),
            cuda((9, 0), DType::Bf16),
        ];
        for level in CpuLevel::ALL {
            let computes = [Compute::Fast, Compute::F32];
            classes.extend(computes.map(|compute| ArithmeticClass::cpu(level, compute)));
        }
        for (i, class) in classes.iter().enumerate() {
            let same = classes[..i].iter().find(|other| other.to_bytes() == class.to_bytes());
            assert_eq!(same, None, "{class:?}");
        }
    }
}
