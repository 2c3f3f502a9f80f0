//! Numbers of one byte, fp8 and int8: how rows of keys and values become such, and are read again.
//!
//! A row is divided by its scale, which makes its largest number the format's largest, then rounded
//! to nearest, ties to even. Every device rounds alike, so that a page means the same everywhere.

use terrace_device::DType;

pub(crate) struct ByteFormat {
    kind: ByteKind,
    largest: f32,
    /// What each byte stands for.
    values: [f32; 256],
}

enum ByteKind {
    /// Bits of the fraction, what is added to the exponent, and the bits of the largest number.
    Float { digits: u32, bias: u32, largest_bits: u8 },
    /// Two's complement, from -127 to 127.
    Integer,
}

static E4M3: ByteFormat = ByteFormat::float(3, 7, 0x7e);
static E5M2: ByteFormat = ByteFormat::float(2, 15, 0x7b);
static INT8: ByteFormat = ByteFormat::integer();

impl ByteFormat {
    /// The format of a type, if it is one.
    pub(crate) fn of(dtype: DType) -> Option<&'static ByteFormat> {
        match dtype {
            DType::F8E4m3 => Some(&E4M3),
            DType::F8E5m2 => Some(&E5M2),
            DType::I8 => Some(&INT8),
            _ => None,
        }
    }

    const fn integer() -> ByteFormat {
        let mut values = [0.0; 256];
        let mut byte = 0;
        while byte < 256 {
            values[byte] = (byte as u8).cast_signed() as f32;
            byte += 1;
        }
        ByteFormat { kind: ByteKind::Integer, largest: 127.0, values }
    }

    const fn float(digits: u32, bias: u32, largest_bits: u8) -> ByteFormat {
        let mut values = [f32::NAN; 256];
        let mut bits = 0;
        while bits <= largest_bits {
            let value = value(bits, digits, bias);
            values[bits as usize] = value;
            values[bits as usize | 0x80] = -value;
            bits += 1;
        }
        if bits == 0x7c {
            values[0x7c] = f32::INFINITY;
            values[0xfc] = f32::NEG_INFINITY;
        }
        let kind = ByteKind::Float { digits, bias, largest_bits };
        ByteFormat { kind, largest: values[largest_bits as usize], values }
    }

    /// Writes a row's numbers, and the bytes of its scale.
    pub(crate) fn encode_row(&self, row: &[f32], numbers: &mut [u8], scale_bytes: &mut [u8]) {
        let most = row.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let scale = match most / self.largest {
            scale if scale > 0.0 => scale,
            _ => 1.0,
        };
        for (number, x) in numbers.iter_mut().zip(row) {
            *number = self.round(x / scale);
        }
        scale_bytes.copy_from_slice(&scale.to_le_bytes());
    }

    /// What each byte stands for.
    pub(crate) fn values(&self) -> &[f32; 256] {
        &self.values
    }

    #[inline(always)]
    pub(crate) fn decode(&self, number: u8, scale: f32) -> f32 {
        self.values[usize::from(number)] * scale
    }

    /// The nearest number, ties to even; what is too large becomes the largest. No integer is a
    /// NaN: it becomes 0.
    fn round(&self, x: f32) -> u8 {
        let ByteKind::Float { digits, bias, largest_bits } = self.kind else {
            let number = x.round_ties_even().clamp(-self.largest, self.largest);
            return (number as i8).cast_unsigned();
        };
        let sign = (x.to_bits() >> 24) as u8 & 0x80;
        let size = x.to_bits() & !(1 << 31);
        if x.is_nan() {
            return 0x7f;
        }
        if size < (128 - bias) << 23 {
            let steps = f32::from_bits(size) * (1 << (bias - 1 + digits)) as f32;
            return sign | steps.round_ties_even() as u8;
        }
        let dropped = 23 - digits;
        let to_even = (1 << (dropped - 1)) - 1 + (size >> dropped & 1);
        let rounded = ((size + to_even) >> dropped) - ((127 - bias) << digits);
        sign | rounded.min(u32::from(largest_bits)) as u8
    }
}

const fn value(bits: u8, digits: u32, bias: u32) -> f32 {
    let fraction = bits as u32 & ((1 << digits) - 1);
    match bits as u32 >> digits {
        0 => fraction as f32 / (1 << (bias - 1 + digits)) as f32,
        exponent => f32::from_bits((exponent + 127 - bias) << 23 | fraction << (23 - digits)),
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn bytes_stand_for_the_numbers_of_the_formats() {
        let e4m3 =
            [(0x00, 0.0), (0x01, 1.0 / 512.0), (0x08, 1.0 / 64.0), (0x38, 1.0), (0x7e, 448.0)];
        for (bits, value) in e4m3 {
            assert_eq!(E4M3.decode(bits, 1.0), value, "{bits:#x}");
            assert_eq!(E4M3.decode(bits | 0x80, 2.0), -2.0 * value, "{bits:#x}");
        }
        assert!(E4M3.decode(0x7f, 1.0).is_nan() && E4M3.decode(0xff, 1.0).is_nan());
        for bits in 0..=255 {
            let upper_half = f16::from_bits(u16::from(bits) << 8).to_f32();
            let got = E5M2.decode(bits, 1.0);
            assert!(got == upper_half || (got.is_nan() && upper_half.is_nan()), "{bits:#x}");
        }
    }

    #[test]
    fn numbers_round_to_the_nearest_and_halves_to_even() {
        for format in [&E4M3, &E5M2] {
            let ByteKind::Float { largest_bits, .. } = format.kind else { unreachable!() };
            for bits in 0..largest_bits {
                let (low, high) = (format.decode(bits, 1.0), format.decode(bits + 1, 1.0));
                let middle = (low + high) / 2.0;
                let even = if bits % 2 == 0 { bits } else { bits + 1 };
                let cases = [
                    (low, bits),
                    (middle.next_down(), bits),
                    (middle, even),
                    (middle.next_up(), bits + 1),
                    (high, bits + 1),
                ];
                for (x, want) in cases {
                    assert_eq!(format.round(x), want, "{x}");
                    assert_eq!(format.round(-x), want | 0x80, "-{x}");
                }
            }
            assert_eq!(format.round(format.largest * 1.0001), largest_bits);
            assert_eq!(format.round(f32::INFINITY), largest_bits);
            assert_eq!(format.round(f32::NAN), 0x7f);
        }
    }

    #[test]
    fn integers_round_to_the_nearest_and_halves_to_even() {
        let cases = [(0.0, 0), (0.5, 0), (1.5, 2), (-2.5, -2), (-126.6, -127), (200.0, 127)];
        for (x, want) in cases {
            assert_eq!(INT8.round(x).cast_signed(), want, "{x}");
            assert_eq!(INT8.decode(INT8.round(x), 0.5), f32::from(want) * 0.5, "{x}");
        }
        assert_eq!((INT8.round(f32::NAN), INT8.round(f32::NEG_INFINITY).cast_signed()), (0, -127));
    }

    #[test]
    fn the_largest_number_of_a_row_keeps_its_size() {
        let row = [0.3, -7.25, 0.001, 7.0];
        for format in [&E4M3, &E5M2] {
            let (mut out, mut scale) = ([0; 4], [0; 4]);
            format.encode_row(&row, &mut out, &mut scale);
            let scale = f32::from_le_bytes(scale);
            assert_eq!(scale, 7.25 / format.largest);
            assert_eq!(out[1], format.round(-format.largest));
            assert!((format.decode(out[0], scale) - 0.3).abs() < 0.3 / 16.0 * 2.0);
        }
    }

    #[test]
    fn a_row_of_zeros_has_scale_one() {
        let (mut out, mut scale) = ([0xff; 3], [0xff; 4]);
        E4M3.encode_row(&[0.0, -0.0, 0.0], &mut out, &mut scale);
        assert_eq!((out, f32::from_le_bytes(scale)), ([0, 0x80, 0], 1.0));
    }
}
