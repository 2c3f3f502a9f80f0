//! How the key or the value of a slot is stored.

use half::{bf16, f16};
use terrace_device::DType;

use crate::quantise::Quantiser;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFormat {
    F32,
    F16,
    Bf16,
    /// Codes, and elsewhere a scale, for [`Quantiser::Asymmetric8`] and `4` followed by a zero
    /// point (i32).
    Quantised(Quantiser),
}

impl RowFormat {
    /// Numbers as they are, in one of the types that pages have.
    pub fn plain(dtype: DType) -> Option<RowFormat> {
        match dtype {
            DType::F32 => Some(RowFormat::F32),
            DType::F16 => Some(RowFormat::F16),
            DType::Bf16 => Some(RowFormat::Bf16),
            _ => None,
        }
    }

    /// Bytes of a row's numbers.
    pub fn row_bytes(self, dim: usize) -> usize {
        match self {
            RowFormat::F32 => 4 * dim,
            RowFormat::F16 | RowFormat::Bf16 => 2 * dim,
            RowFormat::Quantised(quantiser) => quantiser.code_bytes(dim),
        }
    }

    /// Bytes of a row's scale and zero point.
    pub fn scale_bytes(self) -> usize {
        match self {
            RowFormat::F32 | RowFormat::F16 | RowFormat::Bf16 => 0,
            RowFormat::Quantised(quantiser) => quantiser.scale_bytes(),
        }
    }

    /// row: `[dim]` · numbers: u8 `[row_bytes]` · scale: u8 `[scale_bytes]`
    #[inline(always)]
    pub fn encode(self, row: &[f32], numbers: &mut [u8], scale: &mut [u8]) {
        match self {
            RowFormat::F32 => {
                let numbers = numbers.as_chunks_mut().0.iter_mut();
                numbers.zip(row).for_each(|(out, x)| *out = x.to_le_bytes());
            }
            RowFormat::F16 => {
                let most = f16::MAX.to_f32();
                let numbers = numbers.as_chunks_mut().0.iter_mut();
                numbers.zip(row).for_each(|(out, x)| {
                    *out = f16::from_f32(x.clamp(-most, most)).to_le_bytes();
                });
            }
            RowFormat::Bf16 => {
                let numbers = numbers.as_chunks_mut().0.iter_mut();
                numbers.zip(row).for_each(|(out, x)| *out = bf16::from_f32(*x).to_le_bytes());
            }
            RowFormat::Quantised(quantiser) => quantiser.encode_apart(row, numbers, scale),
        }
    }

    /// The reverse of [`encode`](Self::encode).
    pub fn decode(self, numbers: &[u8], scale: &[u8], row: &mut [f32]) {
        match self {
            RowFormat::F32 => {
                let numbers = numbers.as_chunks().0;
                row.iter_mut().zip(numbers).for_each(|(x, n)| *x = f32::from_le_bytes(*n));
            }
            RowFormat::F16 => {
                let numbers = numbers.as_chunks().0;
                row.iter_mut().zip(numbers).for_each(|(x, n)| *x = f16::from_le_bytes(*n).to_f32());
            }
            RowFormat::Bf16 => {
                let numbers = numbers.as_chunks().0;
                let numbers = row.iter_mut().zip(numbers);
                numbers.for_each(|(x, n)| *x = bf16::from_le_bytes(*n).to_f32());
            }
            RowFormat::Quantised(quantiser) => quantiser.decode_apart(numbers, scale, row),
        }
    }
}
