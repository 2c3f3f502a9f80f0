//! GGUF's numbers for tensor types.

use terrace_kernels::WeightFormat;

/// The formats Terrace computes with, as messages list them.
pub const SUPPORTED: &str =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";

pub fn weight_format(type_id: u32) -> Option<WeightFormat> {
    Some(match type_id {
        0 => WeightFormat::F32,
        1 => WeightFormat::F16,
        2 => WeightFormat::Q4_0,
        3 => WeightFormat::Q4_1,
        6 => WeightFormat::Q5_0,
        7 => WeightFormat::Q5_1,
        8 => WeightFormat::Q8_0,
        10 => WeightFormat::Q2K,
        11 => WeightFormat::Q3K,
        12 => WeightFormat::Q4K,
        13 => WeightFormat::Q5K,
        14 => WeightFormat::Q6K,
        20 => WeightFormat::Iq4Nl,
        30 => WeightFormat::Bf16,
        _ => return None,
    })
}

/// What the user knows an unsupported type as.
pub fn name(type_id: u32) -> &'static str {
    match type_id {
        9 => "Q8_1",
        15 => "Q8_K",
        16..=19 | 21..=23 | 29 => "one of the IQ formats",
        24..=28 => "a plain integer or f64 format",
        34 | 35 => "one of the TQ formats",
        39 => "MXFP4",
        _ => "unknown",
    }
}
