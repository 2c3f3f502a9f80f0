//! How a slot stores a key or a value: as it is, or through a quantiser.

use terrace_device::DType;
use terrace_kernels::Quantiser;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotFormat {
    Plain,
    Quantised(Quantiser),
}

/// Every name, and which of them is one format's first.
const NAMES: [(&str, SlotFormat); 8] = [
    ("default", SlotFormat::Plain),
    ("torch-quantized8", SlotFormat::Quantised(Quantiser::Asymmetric8)),
    ("torch-quantized4", SlotFormat::Quantised(Quantiser::Asymmetric4)),
    ("bnb-quantized8", SlotFormat::Quantised(Quantiser::Dynamic8)),
    ("bnb-quantized4", SlotFormat::Quantised(Quantiser::Float4)),
    ("fp8", SlotFormat::Quantised(Quantiser::Fp8)),
    ("ao-quantized8", SlotFormat::Quantised(Quantiser::Asymmetric8)),
    ("ao-quantized4", SlotFormat::Quantised(Quantiser::Asymmetric4)),
];

impl SlotFormat {
    pub fn named(name: &str) -> Option<SlotFormat> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    pub fn name(self) -> &'static str {
        let own = NAMES.iter().find(|(_, format)| *format == self);
        own.map(|(name, _)| *name).expect("every format has a name")
    }

    /// The names of all formats, without aliases.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(|(name, format)| format.name() == *name).map(|(name, _)| *name)
    }

    pub fn quantiser(self) -> Option<Quantiser> {
        match self {
            SlotFormat::Plain => None,
            SlotFormat::Quantised(quantiser) => Some(quantiser),
        }
    }

    /// Bytes of a row of `dim` numbers, of type `plain` where they are stored as they are.
    pub fn row_bytes(self, dim: usize, plain: DType) -> usize {
        match self {
            SlotFormat::Plain => dim * plain.bytes(),
            SlotFormat::Quantised(quantiser) => quantiser.row_bytes(dim),
        }
    }

    /// What a row reads as once it is stored; gives the L2 norm of what that changes.
    pub fn pass(self, row: &mut [f32]) -> f32 {
        self.quantiser().map_or(0.0, |quantiser| quantiser.pass(row))
    }
}
