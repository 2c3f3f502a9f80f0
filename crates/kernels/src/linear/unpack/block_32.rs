//! Formats whose blocks hold 32 weights, which a level can unpack into registers.

use crate::linear::weight_format::WeightFormat;

/// A format as a type, so that a loop over its blocks is compiled for it.
pub(crate) trait Block32 {
    const FORMAT: WeightFormat;
    const BYTES: usize = Self::FORMAT.block_bytes();
}

macro_rules! block_formats {
    ($($name:ident),*) => {$(
        #[allow(non_camel_case_types)]
        pub(crate) struct $name;

        impl Block32 for $name {
            const FORMAT: WeightFormat = WeightFormat::$name;
        }
    )*};
}
block_formats!(Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Iq4Nl);

/// Work to be compiled for each of these formats.
pub(crate) trait ForBlock32 {
    /// Must be `#[inline(always)]`.
    fn run<F: Block32>(self);
}

/// Runs `work` for `format` and returns true, or false when its blocks are not of this kind.
#[inline(always)]
pub(crate) fn for_block_32(format: WeightFormat, work: impl ForBlock32) -> bool {
    match format {
        WeightFormat::Q4_0 => work.run::<Q4_0>(),
        WeightFormat::Q4_1 => work.run::<Q4_1>(),
        WeightFormat::Q5_0 => work.run::<Q5_0>(),
        WeightFormat::Q5_1 => work.run::<Q5_1>(),
        WeightFormat::Q8_0 => work.run::<Q8_0>(),
        WeightFormat::Iq4Nl => work.run::<Iq4Nl>(),
        _ => return false,
    }
    true
}
