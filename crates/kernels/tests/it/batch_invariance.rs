//! A row's result does not depend on the rows beside it, nor on the threads.

use proptest::prelude::*;
use terrace_device::{DType, View, ViewMut};
use terrace_kernels::conformance::{KvCase, KvSpec, matrix};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{Activation, CpuOps, Matrix, PageLayout, Projection};

use crate::{any_matrix, bits, every_level};

fn project(ops: &CpuOps, x: &[f32], weight: &Matrix) -> Vec<u32> {
    let tokens = x.len() / weight.columns();
    let mut out = vec![f32::NAN; tokens * weight.rows()];
    let part = ViewMut::of(&mut out, [tokens, weight.rows()]);
    let x = View::of(x, [tokens, weight.columns()]);
    ops.project(x, &mut [Projection { weight, bias: None, out: part }]);
    bits(&out)
}

/// Holds `op`, which maps rows to rows, to its results for single rows.
fn check_rows(rows: &[f32], width: usize, op: impl Fn(&[f32]) -> Vec<u32>) {
    let together = op(rows);
    let alone: Vec<u32> = rows.chunks_exact(width).flat_map(op).collect();
    assert!(together == alone, "rows of {width} differ when they run alone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn products_of_a_row_alone_and_in_a_batch(
        (format, rows, columns) in any_matrix(),
        tokens in 1usize..40,
        seed: u64,
    ) {
        let mut random = SplitMix::new(seed);
        let weight = matrix(&mut random, format, rows, columns);
        let x = random.numbers(tokens * columns);
        for (one, three) in every_level(1).zip(every_level(3)) {
            check_rows(&x, columns, |x| project(&one, x, &weight));
            assert_eq!(project(&one, &x, &weight), project(&three, &x, &weight), "threads");
        }
    }

    #[test]
    fn row_ops_alone_and_in_a_batch(tokens in 1usize..40, dim in 1usize..2000, seed: u64) {
        let mut random = SplitMix::new(seed);
        let (x, weight) = (random.numbers(tokens * dim), random.numbers(dim));
        for ops in every_level(2) {
            check_rows(&x, dim, |x| {
                let shape = [x.len() / dim, dim];
                let mut out = vec![f32::NAN; x.len()];
                let weight = View::of(&weight, [dim]);
                ops.rms_norm(View::of(x, shape), weight, 1e-5, ViewMut::of(&mut out, shape));
                bits(&out)
            });
            check_rows(&x, dim, |x| {
                let shape = [x.len() / dim, dim];
                let mut out = vec![f32::NAN; x.len()];
                let x = View::of(x, shape);
                ops.gate(x, x, Activation::Silu, ViewMut::of(&mut out, shape));
                bits(&out)
            });
        }
    }

    #[test]
    fn attention_of_a_sequence_alone_and_in_a_batch(
        dtype in prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16, DType::F8E4m3]),
        group in 1usize..6,
        head_dim in 1usize..70,
        seqs in prop::collection::vec([0usize..700, 1usize..30], 1..5),
        window in prop::option::of(1usize..600),
        prompt_tokens in 0usize..200,
        seed: u64,
    ) {
        let mut random = SplitMix::new(seed);
        let layout = PageLayout {
            layers: 1,
            kv_heads: 2,
            page_tokens: 16,
            key_dim: head_dim,
            value_dim: head_dim,
            dtype,
        };
        let spec = KvSpec { layout, layer: 0, heads: 2 * group, window, seqs, prompt_tokens };
        let mut batch = KvCase::new(spec.clone(), &mut random);
        // With seven threads the keys of one long sequence are shared out.
        for (one, ops) in every_level(1).zip(every_level(7)) {
            let together = batch.attend(&ops);
            prop_assert_eq!(bits(&together), bits(&batch.attend(&one)), "threads");
            let mut alone = Vec::new();
            for seq in 0..spec.seqs.len() {
                let only = KvSpec { seqs: vec![spec.seqs[seq]], ..spec.clone() };
                let row = |rows: &[Vec<f32>]| vec![rows[seq].clone()];
                let (q, keys, values) = (row(&batch.q), row(&batch.keys), row(&batch.values));
                alone.extend(KvCase::of_rows(only, q, keys, values, &mut random).attend(&ops));
            }
            prop_assert_eq!(bits(&together), bits(&alone), "{}", ops.level().name());
        }
    }
}
