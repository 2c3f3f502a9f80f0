//! Products against f64, and each level against the specification, bit by bit.

use std::sync::Arc;

use terrace_device::{Buffer, View, ViewMut};

use super::fixed_matrix::FixedMatrix;
use super::fixed_products::{FixedProducts, PANELS_MOST, TILE_ROWS};
use super::fixed_rows::{FixedRow, ToFixed};
use super::fixed_step::FixedStep;
use super::project::{FixedProduct, project};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::{Compute, CpuOptions};
use crate::cpu::lanes::{PanelKernel, Simd};
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::matrix::Matrix;
use crate::linear::weight_format::WeightFormat;
use crate::random::SplitMix;
use crate::tiles::PANEL_ROWS;

fn ctx(level: CpuLevel, threads: usize) -> CpuCtx {
    let options = CpuOptions { threads, level: Some(level), compute: Compute::Fast };
    CpuCtx::new(options).expect("a level that there is")
}

fn biased(weights: &[f32], columns: usize, bias: Option<Vec<f32>>) -> BiasedWeight {
    let mut buffer = Buffer::zeroed(size_of_val(weights), "weights").expect("a small buffer");
    let bytes = buffer.bytes_mut().as_chunks_mut().0.iter_mut();
    bytes.zip(weights).for_each(|(bytes, weight)| *bytes = weight.to_le_bytes());
    let rows = weights.len() / columns;
    let weight = Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer));
    BiasedWeight { weight, bias }
}

/// Numbers of a few sizes beside each other.
fn numbers(random: &mut SplitMix, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.number() * [1.0, 1.0, 0.1, 3.0][random.below(4)]).collect()
}

#[test]
fn the_largest_magnitude_fits_and_the_step_is_a_power_of_two() {
    for largest in [1e-20, 0.3, 0.999_999, 1.0, 1.5, 4096.0, f32::MAX] {
        let step = FixedStep::of(largest);
        assert_eq!(step.step.to_bits() & 0x7f_ffff, 0);
        assert!((step.step * step.inverse - 1.0).abs() < f32::EPSILON);
        let most = step.quantise(largest);
        assert!((2048..=4095).contains(&most), "{largest}: {most}");
        assert_eq!(step.quantise(-largest), -most);
    }
    assert_eq!(FixedStep::of(0.0), FixedStep { step: 0.0, inverse: 0.0 });
    assert!(FixedStep::of(f32::NAN).step.is_nan() && FixedStep::of(f32::INFINITY).step.is_nan());
}

/// Sums of 128 products are at their bounds.
#[test]
fn the_largest_numbers_do_not_overflow() {
    for sign in [1.0, -1.0] {
        let (x, weights) = (vec![0.999_99; 300], vec![sign * 0.999_99; 300]);
        for level in CpuLevel::available() {
            let ctx = ctx(level, 1);
            let matrix = FixedMatrix::pack(&biased(&weights, 300, None), ctx.workers());
            let matrix = matrix.expect("a small matrix");
            let mut out = [0.0];
            let (x, out_view) = (View::of(&x, [1, 300]), ViewMut::of(&mut out, [1, 1]));
            project(&ctx, FixedProduct { x, matrix: &matrix, relu: false, out: out_view });
            assert!((out[0] - sign * 300.0).abs() < 0.2, "{}: {}", level.name(), out[0]);
        }
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for wrong in [f32::NAN, f32::INFINITY] {
        let mut x = vec![0.5; 2 * 200];
        x[200 + 77] = wrong;
        for level in CpuLevel::available() {
            let ctx = ctx(level, 2);
            let matrix = FixedMatrix::pack(&biased(&[0.25; 200], 200, None), ctx.workers());
            let matrix = matrix.expect("a small matrix");
            let mut out = [0.0; 2];
            let (x, out_view) = (View::of(&x, [2, 200]), ViewMut::of(&mut out, [2, 1]));
            project(&ctx, FixedProduct { x, matrix: &matrix, relu: true, out: out_view });
            assert!((out[0] - 25.0).abs() < 1e-3 && out[1].is_nan(), "{}: {out:?}", level.name());
        }
    }
}

#[test]
fn products_are_close_to_those_in_f64() {
    let mut random = SplitMix::new(5);
    for columns in [64, 65, 128, 129, 300, 1024] {
        for (rows, outputs) in [(1, 1), (2, 16), (7, 17), (8, 48), (100, 50), (203, 113)] {
            let weights = numbers(&mut random, outputs * columns);
            let x = numbers(&mut random, rows * columns);
            let bias = (random.below(2) == 0).then(|| numbers(&mut random, outputs));
            let relu = random.below(2) == 0;
            for level in CpuLevel::available() {
                let ctx = ctx(level, 3);
                let biased = biased(&weights, columns, bias.clone());
                let matrix = FixedMatrix::pack(&biased, ctx.workers()).expect("a small matrix");
                let mut out = vec![f32::NAN; rows * outputs];
                let x_view = View::of(&x, [rows, columns]);
                let out_view = ViewMut::of(&mut out, [rows, outputs]);
                project(&ctx, FixedProduct { x: x_view, matrix: &matrix, relu, out: out_view });
                for (i, found) in out.iter().enumerate() {
                    let x = &x[i / outputs * columns..][..columns];
                    let weights = &weights[i % outputs * columns..][..columns];
                    let products =
                        x.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w));
                    let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[i % outputs]));
                    let want = products.sum::<f64>() + bias;
                    let want = if relu { want.max(0.0) } else { want };
                    // Steps of 2^-10 at most, errors of half of them that add up like noise.
                    let limit = 2e-3 * (columns as f64).sqrt();
                    let apart = (f64::from(*found) - want).abs();
                    assert!(apart < limit, "{columns} columns, {}: {apart:e}", level.name());
                }
            }
        }
    }
}

/// Runs a kernel by its specification, and by the instructions of a level.
fn each_way(mut run: impl FnMut(&dyn Fn(FixedProducts<'_>)) -> Vec<f32>) {
    let want = run(&|kernel| kernel.reference());
    let check = |name: &str, found: Vec<f32>| {
        assert!(found.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
    };
    for level in CpuLevel::available() {
        let simd = Simd::detect(level).expect("a level that there is");
        check(level.name(), run(&|kernel| simd.run_panels(kernel)));
        check("int16", run(&|kernel| simd.run_int16(kernel)));
    }
}

#[test]
fn every_level_has_the_same_bits() {
    let mut random = SplitMix::new(9);
    let ctx = ctx(CpuLevel::Reference, 1);
    for columns in [64, 99, 256, 391] {
        for (rows, panels) in [(1, 1), (2, 2), (5, 3), (8, 1), (21, 3)] {
            let outputs = panels * PANEL_ROWS - 3;
            let biased = biased(&numbers(&mut random, outputs * columns), columns, None);
            let matrix = FixedMatrix::pack(&biased, ctx.workers()).expect("a small matrix");
            let row = FixedRow::of(columns);
            let mut x = vec![0u32; rows * row.bytes() / 4];
            // SAFETY: any bytes are such rows.
            let x = unsafe { x.align_to_mut::<u8>().1 };
            for out in x.chunks_exact_mut(row.bytes()) {
                ctx.simd.run_panels(ToFixed { x: &numbers(&mut random, columns), out });
            }
            let width = panels * PANEL_ROWS;
            each_way(|kernel| {
                let mut sums =
                    vec![0.0; rows.next_multiple_of(TILE_ROWS) * PANELS_MOST * PANEL_ROWS];
                let (x, sums_of_rows) = (&*x, &mut sums[..]);
                kernel(FixedProducts {
                    x,
                    rows,
                    matrix: &matrix,
                    panels: 0..panels,
                    sums: sums_of_rows,
                });
                sums.truncate(rows * width);
                sums
            });
        }
    }
}

#[test]
fn rows_become_the_same_integers_on_every_level() {
    let mut random = SplitMix::new(13);
    for columns in [1, 31, 64, 127, 128, 129, 500] {
        let x = numbers(&mut random, columns);
        let run = |level| {
            let mut out = vec![0u8; FixedRow::of(columns).bytes()];
            let simd = Simd::detect(level).expect("a level that there is");
            simd.run_panels(ToFixed { x: &x, out: &mut out });
            out.truncate(FixedRow::of(columns).word_bytes() + 4 * FixedRow::of(columns).blocks());
            out
        };
        for level in CpuLevel::available() {
            assert_eq!(run(level), run(CpuLevel::Reference), "{columns}, {}", level.name());
        }
    }
}
