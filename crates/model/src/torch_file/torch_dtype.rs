//! The number types of tensors.

use terrace_kernels::WeightFormat;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TorchDtype {
    F64,
    F32,
    F16,
    Bf16,
    F8E4M3,
    F8E5M2,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
}

/// Each with its name in PyTorch and its storage class of old, where there is one.
const NAMES: [(TorchDtype, &str, &str); 12] = [
    (TorchDtype::F64, "float64", "DoubleStorage"),
    (TorchDtype::F32, "float32", "FloatStorage"),
    (TorchDtype::F16, "float16", "HalfStorage"),
    (TorchDtype::Bf16, "bfloat16", "BFloat16Storage"),
    (TorchDtype::F8E4M3, "float8_e4m3fn", ""),
    (TorchDtype::F8E5M2, "float8_e5m2", ""),
    (TorchDtype::I64, "int64", "LongStorage"),
    (TorchDtype::I32, "int32", "IntStorage"),
    (TorchDtype::I16, "int16", "ShortStorage"),
    (TorchDtype::I8, "int8", "CharStorage"),
    (TorchDtype::U8, "uint8", "ByteStorage"),
    (TorchDtype::Bool, "bool", "BoolStorage"),
];

impl TorchDtype {
    /// As `torch.NAME` has it.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known, _)| *known == name).map(|(dtype, ..)| *dtype)
    }

    pub(super) fn from_storage(class: &str) -> Option<Self> {
        let mut classes = NAMES.iter().filter(|(.., known)| !known.is_empty());
        classes.find(|(.., known)| *known == class).map(|(dtype, ..)| *dtype)
    }

    pub(super) fn storage(self) -> Option<&'static str> {
        let (.., class) = NAMES.iter().find(|(dtype, ..)| *dtype == self)?;
        (!class.is_empty()).then_some(class)
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(dtype, ..)| *dtype == self).map_or("unknown", |(_, name, _)| name)
    }

    pub fn bytes(self) -> usize {
        match self {
            TorchDtype::F64 | TorchDtype::I64 => 8,
            TorchDtype::F32 | TorchDtype::I32 => 4,
            TorchDtype::F16 | TorchDtype::Bf16 | TorchDtype::I16 => 2,
            TorchDtype::F8E4M3
            | TorchDtype::F8E5M2
            | TorchDtype::I8
            | TorchDtype::U8
            | TorchDtype::Bool => 1,
        }
    }

    /// The type that weights of a format are of, unless it is one of blocks.
    pub fn of_weights(format: WeightFormat) -> Option<Self> {
        let mut dtypes = NAMES.iter().map(|(dtype, ..)| *dtype);
        dtypes.find(|dtype| dtype.weight_format() == Some(format))
    }

    /// As which weights these numbers can be used.
    pub fn weight_format(self) -> Option<WeightFormat> {
        match self {
            TorchDtype::F32 => Some(WeightFormat::F32),
            TorchDtype::F16 => Some(WeightFormat::F16),
            TorchDtype::Bf16 => Some(WeightFormat::Bf16),
            _ => None,
        }
    }
}
