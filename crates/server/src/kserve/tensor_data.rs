//! The elements of a tensor, each in its own type.
//!
//! They are converted once, where they come in or go out. On the wire they are little-endian, one
//! after the other; texts have their length before them, in four bytes.

use bytes::{Buf, Bytes};

use super::datatype::Datatype;

#[derive(Clone, Debug, PartialEq)]
pub enum TensorData {
    Bool(Vec<bool>),
    Uint8(Vec<u8>),
    Uint16(Vec<u16>),
    Uint32(Vec<u32>),
    Uint64(Vec<u64>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    /// Bits, not numbers.
    Fp16(Vec<u16>),
    /// Bits, not numbers.
    Bf16(Vec<u16>),
    Fp32(Vec<f32>),
    Fp64(Vec<f64>),
    Bytes(Vec<Bytes>),
}

/// Before each element of a tensor of texts.
const LENGTH_BYTES: usize = 4;

/// Matches a tensor's elements, whatever their type.
macro_rules! with_elements {
    ($data:expr, $elements:ident => $body:expr) => {
        match $data {
            TensorData::Bool($elements) => $body,
            TensorData::Uint8($elements) => $body,
            TensorData::Uint16($elements) => $body,
            TensorData::Uint32($elements) => $body,
            TensorData::Uint64($elements) => $body,
            TensorData::Int8($elements) => $body,
            TensorData::Int16($elements) => $body,
            TensorData::Int32($elements) => $body,
            TensorData::Int64($elements) => $body,
            TensorData::Fp16($elements) => $body,
            TensorData::Bf16($elements) => $body,
            TensorData::Fp32($elements) => $body,
            TensorData::Fp64($elements) => $body,
            TensorData::Bytes($elements) => $body,
        }
    };
}

impl TensorData {
    pub fn datatype(&self) -> Datatype {
        match self {
            Self::Bool(_) => Datatype::Bool,
            Self::Uint8(_) => Datatype::Uint8,
            Self::Uint16(_) => Datatype::Uint16,
            Self::Uint32(_) => Datatype::Uint32,
            Self::Uint64(_) => Datatype::Uint64,
            Self::Int8(_) => Datatype::Int8,
            Self::Int16(_) => Datatype::Int16,
            Self::Int32(_) => Datatype::Int32,
            Self::Int64(_) => Datatype::Int64,
            Self::Fp16(_) => Datatype::Fp16,
            Self::Bf16(_) => Datatype::Bf16,
            Self::Fp32(_) => Datatype::Fp32,
            Self::Fp64(_) => Datatype::Fp64,
            Self::Bytes(_) => Datatype::Bytes,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        with_elements!(self, elements => elements.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads exactly `elements` of them; says what is wrong with the bytes.
    pub fn from_raw(datatype: Datatype, raw: &Bytes, elements: usize) -> Result<Self, String> {
        let Some(element_bytes) = datatype.element_bytes() else {
            return texts_from_raw(raw, elements).map(Self::Bytes);
        };
        if elements.checked_mul(element_bytes) != Some(raw.len()) {
            let (bytes, name) = (raw.len(), datatype.name());
            return Err(format!(
                "its data has {bytes} bytes, and {elements} elements of {name} have \
                 {element_bytes} each"
            ));
        }
        Ok(match datatype {
            Datatype::Bool => Self::Bool(bools_from_raw(raw)?),
            Datatype::Uint8 => Self::Uint8(raw.to_vec()),
            Datatype::Uint16 => Self::Uint16(numbers(raw, u16::from_le_bytes)),
            Datatype::Uint32 => Self::Uint32(numbers(raw, u32::from_le_bytes)),
            Datatype::Uint64 => Self::Uint64(numbers(raw, u64::from_le_bytes)),
            Datatype::Int8 => Self::Int8(numbers(raw, i8::from_le_bytes)),
            Datatype::Int16 => Self::Int16(numbers(raw, i16::from_le_bytes)),
            Datatype::Int32 => Self::Int32(numbers(raw, i32::from_le_bytes)),
            Datatype::Int64 => Self::Int64(numbers(raw, i64::from_le_bytes)),
            Datatype::Fp16 => Self::Fp16(numbers(raw, u16::from_le_bytes)),
            Datatype::Bf16 => Self::Bf16(numbers(raw, u16::from_le_bytes)),
            Datatype::Fp32 => Self::Fp32(numbers(raw, f32::from_le_bytes)),
            Datatype::Fp64 => Self::Fp64(numbers(raw, f64::from_le_bytes)),
            Datatype::Bytes => unreachable!("its elements have no fixed length"),
        })
    }

    /// The bytes that [`write_raw`](Self::write_raw) adds.
    pub fn raw_len(&self) -> usize {
        match self {
            Self::Bytes(texts) => texts.iter().map(|text| LENGTH_BYTES + text.len()).sum(),
            _ => self.len() * self.datatype().element_bytes().expect("all others have a length"),
        }
    }

    pub fn write_raw(&self, raw: &mut Vec<u8>) {
        match self {
            Self::Bool(bools) => raw.extend(bools.iter().map(|it| u8::from(*it))),
            Self::Uint8(bytes) => raw.extend_from_slice(bytes),
            Self::Uint16(numbers) => write_numbers(numbers, raw, u16::to_le_bytes),
            Self::Uint32(numbers) => write_numbers(numbers, raw, u32::to_le_bytes),
            Self::Uint64(numbers) => write_numbers(numbers, raw, u64::to_le_bytes),
            Self::Int8(numbers) => write_numbers(numbers, raw, i8::to_le_bytes),
            Self::Int16(numbers) => write_numbers(numbers, raw, i16::to_le_bytes),
            Self::Int32(numbers) => write_numbers(numbers, raw, i32::to_le_bytes),
            Self::Int64(numbers) => write_numbers(numbers, raw, i64::to_le_bytes),
            Self::Fp16(bits) | Self::Bf16(bits) => write_numbers(bits, raw, u16::to_le_bytes),
            Self::Fp32(numbers) => write_numbers(numbers, raw, f32::to_le_bytes),
            Self::Fp64(numbers) => write_numbers(numbers, raw, f64::to_le_bytes),
            Self::Bytes(texts) => {
                for text in texts {
                    let length = u32::try_from(text.len()).expect("no text has 4 GiB");
                    raw.extend_from_slice(&length.to_le_bytes());
                    raw.extend_from_slice(text);
                }
            }
        }
    }
}

fn numbers<const N: usize, T>(raw: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (numbers, _) = raw.as_chunks::<N>();
    numbers.iter().map(|bytes| number(*bytes)).collect()
}

/// In one pass over memory that is there: as fast as a copy.
fn write_numbers<const N: usize, T: Copy>(
    numbers: &[T],
    raw: &mut Vec<u8>,
    bytes: impl Fn(T) -> [u8; N],
) {
    let start = raw.len();
    raw.resize(start + N * numbers.len(), 0);
    let (room, _) = raw[start..].as_chunks_mut::<N>();
    for (room, number) in room.iter_mut().zip(numbers) {
        *room = bytes(*number);
    }
}

fn bools_from_raw(raw: &[u8]) -> Result<Vec<bool>, String> {
    match raw.iter().position(|byte| *byte > 1) {
        None => Ok(raw.iter().map(|byte| *byte == 1).collect()),
        Some(index) => {
            let byte = raw[index];
            Err(format!("element {index} of its data is {byte}; a BOOL is 0 or 1"))
        }
    }
}

fn texts_from_raw(raw: &Bytes, elements: usize) -> Result<Vec<Bytes>, String> {
    // Each has at least its length, so that no more is taken than the bytes explain.
    if elements > raw.len() / LENGTH_BYTES {
        let bytes = raw.len();
        return Err(format!("its data has {bytes} bytes, too few for {elements} BYTES"));
    }
    let mut left = raw.clone();
    let mut texts = Vec::with_capacity(elements);
    for index in 0..elements {
        let at = raw.len() - left.len();
        let length = left.try_get_u32_le().map_err(|_| {
            format!("its data ends at byte {at}, where the length of element {index} should be")
        })?;
        let length = length as usize;
        if length > left.len() {
            let rest = left.len();
            return Err(format!(
                "element {index} of its data says that it has {length} bytes, and {rest} are left"
            ));
        }
        texts.push(left.split_to(length));
    }
    match left.len() {
        0 => Ok(texts),
        rest => Err(format!("{rest} bytes of its data are left after {elements} BYTES")),
    }
}

#[cfg(test)]
mod tests;
