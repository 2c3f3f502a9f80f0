//! The types a number may have in memory.

use half::{bf16, f16};

/// How one element of a [`View`](crate::View) is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    F32,
    F16,
    Bf16,
    /// 4 bits of exponent, 3 of fraction; no infinities, largest 448.
    F8E4m3,
    /// 5 bits of exponent, 2 of fraction; the upper half of an f16, largest 57344.
    F8E5m2,
    /// Two's complement.
    I8,
    I32,
    I64,
    U8,
}

impl DType {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::Bf16 => 2,
            DType::F8E4m3 | DType::F8E5m2 | DType::I8 | DType::U8 => 1,
        }
    }

    /// The name used in messages and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F8E4m3 => "f8e4m3",
            DType::F8E5m2 => "f8e5m2",
            DType::I8 => "int8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
        }
    }
}

/// A Rust type that a [`View`](crate::View) can hand out as a slice.
///
/// Sealed: every implementor is plain data, valid for any bit pattern, which is what makes
/// reading a buffer as a slice of it sound.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
element!(f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32, i64 => I64, u8 => U8);
