//! Numbers as bytes of a type, and back.

use half::{bf16, f16};
use terrace_device::DType;

/// The nearest numbers that the type has.
pub(super) fn rounded(numbers: Vec<f32>, dtype: DType) -> Vec<f32> {
    let round = |x: f32| match dtype {
        DType::F16 => f16::from_f32(x).to_f32(),
        DType::Bf16 => bf16::from_f32(x).to_f32(),
        _ => x,
    };
    numbers.into_iter().map(round).collect()
}

pub(super) fn write(bytes: &mut [u8], at: usize, numbers: &[f32], dtype: DType) {
    for (i, &x) in numbers.iter().enumerate() {
        let at = at + i * dtype.bytes();
        match dtype {
            DType::F16 => bytes[at..at + 2].copy_from_slice(&f16::from_f32(x).to_le_bytes()),
            DType::Bf16 => bytes[at..at + 2].copy_from_slice(&bf16::from_f32(x).to_le_bytes()),
            _ => bytes[at..at + 4].copy_from_slice(&x.to_le_bytes()),
        }
    }
}

pub(super) fn read(bytes: &[u8], dtype: DType) -> Vec<f32> {
    let number = |bytes: &[u8]| match dtype {
        DType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        DType::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        _ => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    };
    bytes.chunks_exact(dtype.bytes()).map(number).collect()
}
