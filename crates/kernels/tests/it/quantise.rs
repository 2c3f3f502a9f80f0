//! Quantisers against the original's numbers, and what must hold for any row.

use proptest::prelude::*;
use terrace_kernels::Quantiser;
use terrace_testkit::GoldenKv;

/// Blocks of one head alone: those that span heads belong to the reference of a fixed batch.
#[test]
fn golden_codes_scales_and_errors() {
    let mut rows = 0;
    for case in GoldenKv::of_kind("quantizer") {
        let quantiser = match case.text("name") {
            "torch-quantized8" => Quantiser::Asymmetric8,
            "torch-quantized4" => Quantiser::Asymmetric4,
            "bnb-quantized8" => Quantiser::Dynamic8,
            "bnb-quantized4" => Quantiser::Float4,
            other => panic!("{}: unknown quantiser {other}", case.name),
        };
        let dim = *case.shape("x").last().expect("rows have numbers");
        let one_head = case.shape("q").last() == Some(&quantiser.code_bytes(dim));
        if one_head && !case.flag("blocks_over_heads") {
            rows += check_case(&case, quantiser, dim);
        }
    }
    assert!(rows > 0, "no golden case has blocks of one head");
}

fn check_case(case: &GoldenKv, quantiser: Quantiser, dim: usize) -> usize {
    let code_bytes = quantiser.code_bytes(dim);
    let rows = case.f32("x").chunks_exact(dim);
    let searched = case.text("name") == "bnb-quantized8";
    for (i, row) in rows.clone().enumerate() {
        let mut bytes = vec![0; quantiser.row_bytes(dim)];
        quantiser.encode(row, &mut bytes);
        let (codes, scales) = bytes.split_at(code_bytes);
        let word = |at: usize| scales[at..at + 4].try_into().expect("four bytes");
        let want_codes = &case.u8("q")[i * code_bytes..(i + 1) * code_bytes];
        if !searched {
            assert_eq!(codes, want_codes, "{}: codes of row {i}", case.name);
        }
        let want_scale = case.f32(if case.has("scale") { "scale" } else { "absmax" })[i];
        assert_eq!(f32::from_le_bytes(word(0)), want_scale, "{}: scale of row {i}", case.name);
        if case.has("zero_point") {
            let zero = case.i32("zero_point")[i];
            assert_eq!(i32::from_le_bytes(word(4)), zero, "{}: zero of row {i}", case.name);
        }
        let mut got = row.to_vec();
        let error = quantiser.pass(&mut got);
        let want = &case.f32("dequant")[i * dim..(i + 1) * dim];
        // The original looks 8-bit codes up by a number rounded to 16 bits.
        let slack = if searched { 3.1e-5 * want_scale } else { 0.0 };
        let near = |(x, (got, want)): (&f32, (&f32, &f32))| {
            got == want || ((x - got).abs() - (x - want).abs()).abs() <= slack
        };
        assert!(row.iter().zip(got.iter().zip(want)).all(near), "{}: row {i}", case.name);
        let other = got.iter().zip(want).filter(|(got, want)| got != want).count();
        assert!(other <= dim / 16, "{}: {other} numbers of row {i} have other codes", case.name);
        let want_error = case.f32("error")[i];
        let close = (error - want_error).abs() <= 2e-6 + slack;
        assert!(close, "{}: error of row {i}: {error}, wanted {want_error}", case.name);
    }
    rows.len()
}

#[test]
fn a_number_in_the_middle_of_a_step_goes_to_the_even_one() {
    // 15 steps of one: 0.5 and 2.5 are halves.
    let mut row = [0.0, 15.0, 0.5, 1.5, 2.5, 3.0];
    Quantiser::Asymmetric4.pass(&mut row);
    assert_eq!(row, [0.0, 15.0, 0.0, 2.0, 2.0, 3.0]);
}

#[test]
fn a_row_of_equal_numbers_keeps_its_size() {
    for quantiser in [Quantiser::Asymmetric8, Quantiser::Asymmetric4] {
        for size in [0.0, 1e-9, 0.3, -2.5, 1e4, -3e38] {
            let mut row = [size; 8];
            quantiser.pass(&mut row);
            for x in row {
                let error = (x - size).abs();
                assert!(
                    error <= size.abs() * 2e-7 + f32::EPSILON,
                    "{quantiser:?} made {size} into {x}"
                );
            }
        }
    }
}

proptest! {
    /// No number moves by more than half the widest step of the format.
    #[test]
    fn a_number_moves_by_half_a_step_at_most(
        row in prop::collection::vec(-50f32..50.0, 1..40),
        offset in -100f32..100.0,
    ) {
        let row: Vec<f32> = row.iter().flat_map(|x| [x + offset, offset - x]).collect();
        let least = row.iter().copied().fold(f32::INFINITY, f32::min);
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let size = least.abs().max(most.abs());
        for quantiser in Quantiser::ALL {
            let step = match quantiser {
                Quantiser::Asymmetric8 => (most - least) / 255.0,
                Quantiser::Asymmetric4 => (most - least) / 15.0,
                Quantiser::Dynamic8 => size * 0.9 / 64.0,
                Quantiser::Float4 => size / 3.0,
                Quantiser::Fp8 => size / 14.0,
            };
            let mut got = row.clone();
            quantiser.pass(&mut got);
            for (x, got) in row.iter().zip(&got) {
                let most = step * 0.51 + size * 1e-6;
                prop_assert!((x - got).abs() <= most, "{quantiser:?} made {x} into {got}");
            }
        }
    }

    /// Damaged bytes are read as numbers, never as a panic.
    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 24)) {
        for quantiser in Quantiser::ALL {
            let dim = (bytes.len() - quantiser.scale_bytes()) * 8 / quantiser.bits();
            quantiser.decode(&bytes, &mut vec![0.0; dim]);
        }
    }
}
