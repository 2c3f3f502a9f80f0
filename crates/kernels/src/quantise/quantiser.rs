//! How a row becomes bytes and is read again.

use terrace_device::DType;

use super::asymmetric::Asymmetric;
use super::byte_format::ByteFormat;
use super::code_book::CodeBook;
use super::code_table::CodeTable;

/// How a row becomes bytes and is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantiser {
    /// Steps of equal size between the row's smallest and largest number: a scale and a zero point.
    Asymmetric8,
    Asymmetric4,
    /// Codes that lie closer together near zero, times the row's largest size.
    Dynamic8,
    /// Sixteen codes with a sign, two bits of exponent and one of fraction.
    Float4,
    /// fp8 with four bits of exponent, times a scale.
    Fp8,
}

impl Quantiser {
    pub const ALL: [Quantiser; 5] = [
        Quantiser::Asymmetric8,
        Quantiser::Asymmetric4,
        Quantiser::Dynamic8,
        Quantiser::Float4,
        Quantiser::Fp8,
    ];

    /// Whether rows of `dim` numbers can be packed: four-bit codes come in pairs.
    pub fn fits(self, dim: usize) -> bool {
        0 < dim && (self.bits() == 8 || dim.is_multiple_of(2))
    }

    pub fn bits(self) -> usize {
        match self {
            Quantiser::Asymmetric8 | Quantiser::Dynamic8 | Quantiser::Fp8 => 8,
            Quantiser::Asymmetric4 | Quantiser::Float4 => 4,
        }
    }

    /// Bytes of the codes of a row of `dim` numbers.
    pub fn code_bytes(self, dim: usize) -> usize {
        dim * self.bits() / 8
    }

    /// Bytes of a row's scale, and of its zero point.
    pub fn scale_bytes(self) -> usize {
        match self {
            Quantiser::Asymmetric8 | Quantiser::Asymmetric4 => 8,
            Quantiser::Dynamic8 | Quantiser::Float4 | Quantiser::Fp8 => 4,
        }
    }

    pub fn row_bytes(self, dim: usize) -> usize {
        self.code_bytes(dim) + self.scale_bytes()
    }

    /// row: `[dim]` · out: u8 `[row_bytes]`
    pub fn encode(self, row: &[f32], out: &mut [u8]) {
        let (codes, scale) = out.split_at_mut(out.len() - self.scale_bytes());
        self.encode_apart(row, codes, scale);
    }

    /// bytes: u8 `[row_bytes]` · row: `[dim]`
    pub fn decode(self, bytes: &[u8], row: &mut [f32]) {
        let (codes, scale) = bytes.split_at(bytes.len() - self.scale_bytes());
        self.decode_apart(codes, scale, row);
    }

    /// row: `[dim]` · codes: u8 `[code_bytes]` · scale: u8 `[scale_bytes]`
    #[inline(always)]
    pub(crate) fn encode_apart(self, row: &[f32], codes: &mut [u8], scale: &mut [u8]) {
        self.assert_fits(row.len(), codes.len(), scale.len());
        match self {
            Quantiser::Asymmetric8 => Asymmetric::BITS_8.encode(row, codes, scale),
            Quantiser::Asymmetric4 => Asymmetric::BITS_4.encode(row, codes, scale),
            Quantiser::Dynamic8 => CodeBook::dynamic8().encode(row, codes, scale),
            Quantiser::Float4 => CodeBook::float4().encode(row, codes, scale),
            Quantiser::Fp8 => fp8().encode_row(row, codes, scale),
        }
    }

    /// The reverse of `encode_apart`.
    pub(crate) fn decode_apart(self, codes: &[u8], scale: &[u8], row: &mut [f32]) {
        self.assert_fits(row.len(), codes.len(), scale.len());
        match self {
            Quantiser::Asymmetric8 => Asymmetric::BITS_8.decode(codes, scale, row),
            Quantiser::Asymmetric4 => Asymmetric::BITS_4.decode(codes, scale, row),
            Quantiser::Dynamic8 => CodeBook::dynamic8().decode(codes, scale, row),
            Quantiser::Float4 => CodeBook::float4().decode(codes, scale, row),
            Quantiser::Fp8 => {
                let scale = f32::from_le_bytes(scale.try_into().expect("four bytes of scale"));
                for (number, code) in row.iter_mut().zip(codes) {
                    *number = fp8().decode(*code, scale);
                }
            }
        }
    }

    /// What its codes stand for, where they are no steps of equal size.
    pub(crate) fn code_table(self) -> Option<CodeTable> {
        match self {
            Quantiser::Asymmetric8 | Quantiser::Asymmetric4 => None,
            Quantiser::Dynamic8 => Some(CodeBook::dynamic8().table()),
            Quantiser::Float4 => Some(CodeBook::float4().table()),
            Quantiser::Fp8 => Some(CodeTable::of_values(fp8().values())),
        }
    }

    /// What each code stands for, before it is scaled; `None` where codes are steps from a zero
    /// point.
    pub(crate) fn code_values(self) -> Option<&'static [f32]> {
        match self {
            Quantiser::Asymmetric8 | Quantiser::Asymmetric4 => None,
            Quantiser::Dynamic8 => Some(CodeBook::dynamic8().values()),
            Quantiser::Float4 => Some(CodeBook::float4().values()),
            Quantiser::Fp8 => Some(fp8().values()),
        }
    }

    /// What the row reads as once it is stored; gives the L2 norm of what that changes.
    pub fn pass(self, row: &mut [f32]) -> f32 {
        let before = row.to_vec();
        let mut bytes = vec![0; self.row_bytes(row.len())];
        self.encode(row, &mut bytes);
        self.decode(&bytes, row);
        let squares = before.iter().zip(row.iter()).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt() as f32
    }

    fn assert_fits(self, dim: usize, codes: usize, scale: usize) {
        assert!(self.fits(dim), "{self:?} cannot pack {dim} numbers");
        let bytes = (self.code_bytes(dim), self.scale_bytes());
        assert_eq!((codes, scale), bytes, "bytes of a row of {dim} numbers as {self:?}");
    }
}

fn fp8() -> &'static ByteFormat {
    ByteFormat::of(DType::F8E4m3).expect("a type of fp8 numbers")
}
