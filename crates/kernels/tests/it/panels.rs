//! Products with packed weights: the same bits in any batch, and integers at every level.

use proptest::prelude::*;
use terrace_device::{View, ViewMut};
use terrace_kernels::conformance::matrix;
use terrace_kernels::random::SplitMix;
use terrace_kernels::{
    Activation, BiasedWeight, Compute, CpuLevel, CpuOptions, GatedArgs, Linear, Matrix, Ops,
    RowKinds, WeightFormat,
};

use crate::{any_matrix, bits};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Prompt,
    Generated,
}

fn fast_ops(level: CpuLevel, threads: usize) -> Ops {
    Ops::cpu(CpuOptions { threads, level: Some(level), compute: Compute::Fast })
        .expect("the level is available")
}

fn unbiased(weight: Matrix) -> BiasedWeight {
    BiasedWeight { weight, bias: None }
}

/// The products of rows that all come from `row_kinds`' lists.
fn project(ops: &Ops, weights: &Linear, x: &[f32], row_kinds: &[Origin]) -> Vec<u32> {
    let (tokens, columns) = (row_kinds.len(), weights.columns());
    let listed = |wanted: Origin| -> Vec<u32> {
        (0..tokens as u32).filter(|&row| row_kinds[row as usize] == wanted).collect()
    };
    let (prompt, generated) = (listed(Origin::Prompt), listed(Origin::Generated));
    let row_kinds = RowKinds::Listed { prompt: &prompt, generated: &generated };
    let mut out = vec![f32::NAN; tokens * weights.rows()];
    let view = ViewMut::of(&mut out, [tokens, weights.rows()]);
    ops.project(View::of(x, [tokens, columns]), row_kinds, weights, view);
    bits(&out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_row_has_the_same_products_in_any_batch(
        (format, rows, columns) in any_matrix(),
        row_kinds in prop::collection::vec(
            prop::sample::select(vec![Origin::Prompt, Origin::Generated]), 1..70),
        seed: u64,
    ) {
        let mut random = SplitMix::new(seed);
        let biased = unbiased(matrix(&mut random, format, rows, columns));
        let x = random.numbers(row_kinds.len() * columns);
        for level in CpuLevel::available() {
            let ops = fast_ops(level, 1);
            let weights = ops.place(vec![biased.clone()]).unwrap();
            let together = project(&ops, &weights, &x, &row_kinds);
            let rows_alone = x.chunks_exact(columns).zip(&row_kinds);
            let alone: Vec<u32> =
                rows_alone.flat_map(|(x, origin)| project(&ops, &weights, x, &[*origin])).collect();
            prop_assert!(together == alone, "{} {}", level.name(), format.name());
            let three = fast_ops(level, 3);
            prop_assert!(together == project(&three, &weights, &x, &row_kinds), "threads");
        }
    }

    #[test]
    fn integer_products_are_the_same_at_every_level(
        (format, rows, columns) in any_matrix(),
        tokens in 1usize..12,
        seed: u64,
    ) {
        if format.block_weights() == 1 {
            return Ok(());
        }
        let mut random = SplitMix::new(seed);
        let biased = unbiased(matrix(&mut random, format, rows, columns));
        let x = random.numbers(tokens * columns);
        let row_kinds = vec![Origin::Generated; tokens];
        let of_level = |level| {
            let ops = fast_ops(level, 1);
            let weights = ops.place(vec![biased.clone()]).unwrap();
            project(&ops, &weights, &x, &row_kinds)
        };
        let plain = of_level(CpuLevel::Reference);
        for level in CpuLevel::available() {
            prop_assert!(of_level(level) == plain, "{} {}", level.name(), format.name());
        }
    }
}

/// The rows of a product that needs several passes over its memory are all there.
#[test]
fn more_rows_than_one_pass_takes() {
    let (tokens, columns, width) = (300, 16 * 1024, 24);
    let mut random = SplitMix::new(3);
    let [gate, up] =
        [0, 1].map(|_| unbiased(matrix(&mut random, WeightFormat::Q4_0, width, columns)));
    let x = random.numbers(tokens * columns);
    for level in [CpuLevel::Reference, CpuLevel::detect()] {
        let ops = fast_ops(level, 2);
        let weights = ops.place_gated(gate.clone(), up.clone()).unwrap();
        let product = |x: &[f32]| {
            let tokens = x.len() / columns;
            let mut both = vec![f32::NAN; 2 * tokens * width];
            let mut out = vec![f32::NAN; tokens * width];
            ops.project_gated(GatedArgs {
                x: View::of(x, [tokens, columns]),
                row_kinds: RowKinds::Generated,
                weights: &weights,
                activation: Activation::Silu,
                both: ViewMut::of(&mut both, [tokens, 2 * width]),
                out: ViewMut::of(&mut out, [tokens, width]),
            });
            bits(&out)
        };
        let last = product(&x[(tokens - 1) * columns..]);
        assert_eq!(product(&x)[(tokens - 1) * width..], last, "{}", level.name());
    }
}
