//! Numbers as bytes of a type, and back.

use half::{bf16, f16};
use terrace_device::DType;

use crate::quantise::byte_format::ByteFormat;

/// The nearest numbers that the type has.
pub(super) fn rounded(numbers: Vec<f32>, dtype: DType) -> Vec<f32> {
    let width = numbers.len().max(1);
    rounded_rows(numbers, width, dtype)
}

/// The nearest numbers that the type has, in rows of `dim` with a scale each if it has scales.
pub(super) fn rounded_rows(numbers: Vec<f32>, dim: usize, dtype: DType) -> Vec<f32> {
    let rows = numbers.chunks_exact(dim).flat_map(|row| {
        let (bytes, scale) = encoded(row, dtype);
        match ByteFormat::of(dtype) {
            None => read(&bytes, dtype),
            Some(format) => {
                let scale = f32::from_le_bytes(scale.try_into().expect("four bytes"));
                bytes.iter().map(|number| format.decode(*number, scale)).collect()
            }
        }
    });
    rows.collect()
}

/// The bytes of a row's numbers, and of its scale if it has one.
pub(super) fn encoded(row: &[f32], dtype: DType) -> (Vec<u8>, Vec<u8>) {
    if let Some(format) = ByteFormat::of(dtype) {
        let (mut numbers, mut scale) = (vec![0; row.len()], vec![0; size_of::<f32>()]);
        format.encode_row(row, &mut numbers, &mut scale);
        return (numbers, scale);
    }
    let mut bytes = vec![0; row.len() * dtype.bytes()];
    write(&mut bytes, 0, row, dtype);
    (bytes, Vec::new())
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
