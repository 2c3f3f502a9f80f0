//! The types that the elements of a tensor have.

use super::messages::DataType;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Datatype {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Bf16,
    Fp32,
    Fp64,
    /// Texts, or bytes of any length.
    Bytes,
}

impl Datatype {
    pub const ALL: [Self; 14] = [
        Self::Bool,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Fp16,
        Self::Bf16,
        Self::Fp32,
        Self::Fp64,
        Self::Bytes,
    ];

    /// As requests and responses call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Uint8 => "UINT8",
            Self::Uint16 => "UINT16",
            Self::Uint32 => "UINT32",
            Self::Uint64 => "UINT64",
            Self::Int8 => "INT8",
            Self::Int16 => "INT16",
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Fp32 => "FP32",
            Self::Fp64 => "FP64",
            Self::Bytes => "BYTES",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// Of an element; `None` where each has its own length.
    pub fn element_bytes(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => Some(1),
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Fp32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Fp64 => Some(8),
            Self::Bytes => None,
        }
    }

    /// As a model's configuration calls it.
    pub fn config_type(self) -> DataType {
        match self {
            Self::Bool => DataType::TypeBool,
            Self::Uint8 => DataType::TypeUint8,
            Self::Uint16 => DataType::TypeUint16,
            Self::Uint32 => DataType::TypeUint32,
            Self::Uint64 => DataType::TypeUint64,
            Self::Int8 => DataType::TypeInt8,
            Self::Int16 => DataType::TypeInt16,
            Self::Int32 => DataType::TypeInt32,
            Self::Int64 => DataType::TypeInt64,
            Self::Fp16 => DataType::TypeFp16,
            Self::Bf16 => DataType::TypeBf16,
            Self::Fp32 => DataType::TypeFp32,
            Self::Fp64 => DataType::TypeFp64,
            Self::Bytes => DataType::TypeString,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for datatype in Datatype::ALL {
            assert_eq!(Datatype::of_name(datatype.name()), Some(datatype));
        }
        for name in ["", "fp32", "FP8", "STRING", "TYPE_FP32"] {
            assert_eq!(Datatype::of_name(name), None, "{name}");
        }
    }
}
