//! Gradients against the differences of what the forward ops give, over odd sizes.

use std::sync::Arc;

use proptest::prelude::*;
use terrace_device::{Buffer, View, ViewMut};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{
    Activation, BiasedWeight, ChunkAt, Compute, CpuOptions, GateGradients, HeadLora, HeadLossArgs,
    Linear, LoraBranch, LoraGradients, Matrix, Ops, ReplayGradients, ReplayQueries, ReplaySlots,
    RmsNormGradients, TuneOps, WeightFormat,
};

/// Half the distance of two inputs: f32 outputs are rounded to about a hundred-thousandth of it.
const STEP: f32 = 1e-2;
/// Entries of an array that are tried.
const TRIED: usize = 9;

fn with_ops<T>(f: impl FnOnce(TuneOps<'_>) -> T) -> T {
    let options = CpuOptions { threads: 2, level: None, compute: Compute::F32 };
    f(Ops::cpu(options).expect("a small case").tuning().expect("a small case"))
}

/// Holds each of `gradients`, one for each input, to the slope of `loss` along some entries.
#[track_caller]
fn check(inputs: &[Vec<f32>], gradients: &[Vec<f32>], loss: impl Fn(&[Vec<f32>]) -> f64) {
    for (which, gradient) in gradients.iter().enumerate() {
        let largest = gradient.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        assert_eq!(gradient.len(), inputs[which].len(), "input {which}");
        for entry in (0..gradient.len()).step_by(gradient.len().div_ceil(TRIED)) {
            let at = |by: f32| {
                let mut moved = inputs.to_vec();
                moved[which][entry] += by;
                loss(&moved)
            };
            let slope = (at(STEP) - at(-STEP)) / f64::from(2.0 * STEP);
            let far = (slope - f64::from(gradient[entry])).abs();
            let limit = 2e-2 * f64::from(largest) + 3e-3;
            assert!(far <= limit, "input {which} [{entry}]: {} is not {slope}", gradient[entry]);
        }
    }
}

/// What a loss sums outputs with.
fn weighted(out: &[f32], weights: &[f32]) -> f64 {
    out.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum()
}

fn linear(ops: &TuneOps<'_>, rows: usize, numbers: &[f32]) -> Linear {
    let mut buffer = Buffer::zeroed(size_of_val(numbers), "a small matrix").expect("a small case");
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes());
    buffer.bytes_mut().iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte);
    let columns = numbers.len() / rows;
    let weight = Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer));
    ops.place(BiasedWeight { weight, bias: None }).expect("memory for a small weight")
}

fn normed(ops: &TuneOps<'_>, random: &mut SplitMix, [rows, dim]: [usize; 2]) {
    let x: Vec<f32> = random.numbers(rows * dim).iter().map(|x| x + 1.5 * x.signum()).collect();
    let (weight, d_out) = (random.numbers(dim), random.numbers(rows * dim));
    let (mut d_x, mut d_weight) = (vec![0.0; rows * dim], vec![0.0; dim]);
    let (shape, eps) = ([rows, dim], 1e-3);
    ops.rms_norm_gradients(RmsNormGradients {
        x: View::of(&x, shape),
        weight: View::of(&weight, [dim]),
        eps,
        d_out: View::of(&d_out, shape),
        d_x: ViewMut::of(&mut d_x, shape),
        d_weight: Some(ViewMut::of(&mut d_weight, [dim])),
    });
    check(&[x, weight], &[d_x, d_weight], |inputs| {
        let mut out = vec![0.0; rows * dim];
        let (x, weight) = (View::of(&inputs[0], shape), View::of(&inputs[1], [dim]));
        ops.rms_norm(x, weight, eps, ViewMut::of(&mut out, shape));
        weighted(&out, &d_out)
    });
}

fn gated(ops: &TuneOps<'_>, random: &mut SplitMix, shape: [usize; 2], kind: Activation) {
    let count = shape[0] * shape[1];
    let inputs = [random.numbers(count), random.numbers(count)];
    let d_out = random.numbers(count);
    let (mut d_gate, mut d_up) = (vec![0.0; count], vec![0.0; count]);
    ops.gate_gradients(GateGradients {
        gate: View::of(&inputs[0], shape),
        up: View::of(&inputs[1], shape),
        kind,
        d_out: View::of(&d_out, shape),
        d_gate: ViewMut::of(&mut d_gate, shape),
        d_up: ViewMut::of(&mut d_up, shape),
    });
    check(&inputs, &[d_gate, d_up], |inputs| {
        let mut out = vec![0.0; count];
        let [gate, up] = [0, 1].map(|i| View::of(&inputs[i], shape));
        ops.gate(gate, up, kind, ViewMut::of(&mut out, shape));
        weighted(&out, &d_out)
    });
}

fn branched(ops: &TuneOps<'_>, random: &mut SplitMix, [tokens, rows]: [usize; 2], rank: usize) {
    let columns = 1 + random.below(20);
    let inputs = [tokens * columns, rank * columns, rows * rank, rows * columns];
    let inputs = inputs.map(|count| random.numbers(count));
    let d_out = random.numbers(tokens * rows);
    let (x_shape, out_shape) = ([tokens, columns], [tokens, rows]);
    let forward = |inputs: &[Vec<f32>], inner: &mut [f32]| {
        let [a, b, weight] =
            [(1, rank), (2, rows), (3, rows)].map(|(i, r)| linear(ops, r, &inputs[i]));
        let mut out = vec![0.0; tokens * rows];
        let x = View::of(&inputs[0], x_shape);
        ops.project(x, &weight, ViewMut::of(&mut out, out_shape));
        let branch = LoraBranch { a: &a, b: &b, scale: 0.4 };
        let inner = ViewMut::of(inner, [tokens, rank]);
        ops.add_branch(x, branch, inner, ViewMut::of(&mut out, out_shape));
        weighted(&out, &d_out)
    };
    let (mut inner, mut d_inner) = (vec![0.0; tokens * rank], vec![0.0; tokens * rank]);
    forward(&inputs, &mut inner);
    let mut gradients = [0, 1, 2, 3].map(|i| vec![0.0; inputs[i].len()]);
    let [d_x, d_a, d_b, d_weight] = &mut gradients;
    let [a, b, weight] = [(1, rank), (2, rows), (3, rows)].map(|(i, r)| linear(ops, r, &inputs[i]));
    let (x, d_out_view) = (View::of(&inputs[0], x_shape), View::of(&d_out, out_shape));
    let done = ops.weight_gradient(d_out_view, x, ViewMut::of(d_weight, [rows, columns]));
    done.expect("memory for small rows");
    let done = ops.input_gradient(d_out_view, &weight, ViewMut::of(d_x, x_shape));
    done.expect("memory for small rows");
    let done = ops.lora_gradients(
        LoraBranch { a: &a, b: &b, scale: 0.4 },
        LoraGradients {
            x,
            inner: View::of(&inner, [tokens, rank]),
            d_out: d_out_view,
            d_inner: ViewMut::of(&mut d_inner, [tokens, rank]),
            d_x: ViewMut::of(d_x, x_shape),
            d_a: ViewMut::of(d_a, [rank, columns]),
            d_b: ViewMut::of(d_b, [rows, rank]),
        },
    );
    done.expect("memory for small rows");
    check(&inputs, &gradients, |inputs| forward(inputs, &mut vec![0.0; tokens * rank]));
}

fn scored(ops: &TuneOps<'_>, random: &mut SplitMix, [rows, vocab]: [usize; 2], block: usize) {
    let (hidden, rank) = (1 + random.below(20), 2);
    let inputs = [rows * hidden, vocab * hidden, rank * hidden, vocab * rank];
    let inputs = inputs.map(|count| random.numbers(count));
    let targets: Vec<i32> = (0..rows).map(|_| random.below(vocab + 1) as i32 - 1).collect();
    let factors = random.numbers(rows);
    let run = |inputs: &[Vec<f32>], gradients: &mut [Vec<f32>; 4]| {
        let [head, a, b] =
            [(1, vocab), (2, rank), (3, vocab)].map(|(i, r)| linear(ops, r, &inputs[i]));
        let [mut inner, mut d_inner] = [(); 2].map(|()| vec![0.0; rows * rank]);
        let [mut logits, mut found] = [block, 3].map(|width| vec![0.0; rows * width]);
        let mut losses = vec![0.0; rows];
        let [d_x, d_head, d_a, d_b] = gradients;
        let done = ops.head_loss(HeadLossArgs {
            x: View::of(&inputs[0], [rows, hidden]),
            head: &head,
            lora: Some(HeadLora {
                branch: LoraBranch { a: &a, b: &b, scale: 0.8 },
                inner: ViewMut::of(&mut inner, [rows, rank]),
                d_inner: ViewMut::of(&mut d_inner, [rows, rank]),
                d_matrices: Some([
                    ViewMut::of(d_a, [rank, hidden]),
                    ViewMut::of(d_b, [vocab, rank]),
                ]),
            }),
            targets: View::of(&targets, [rows]),
            factors: View::of(&factors, [rows]),
            logits: ViewMut::of(&mut logits, [rows, block]),
            found: ViewMut::of(&mut found, [rows, 3]),
            losses: ViewMut::of(&mut losses, [rows]),
            d_x: Some(ViewMut::of(d_x, [rows, hidden])),
            d_head: Some(ViewMut::of(d_head, [vocab, hidden])),
        });
        done.expect("memory for small rows");
        weighted(&losses, &factors)
    };
    let zeros = || [0, 1, 2, 3].map(|i| vec![0.0; inputs[i].len()]);
    let mut gradients = zeros();
    run(&inputs, &mut gradients);
    check(&inputs, &gradients, |inputs| run(inputs, &mut zeros()));
}

/// positions: `[seqs * kv_heads, filled]`
fn queries<'a>(
    at: ChunkAt,
    inputs: &'a [Vec<f32>],
    positions: &'a [i32],
    window: Option<usize>,
) -> ReplayQueries<'a> {
    let rows = at.seqs * at.kv_heads;
    let filled = positions.len() / rows;
    let slots = ReplaySlots {
        keys: View::of(&inputs[1], [rows, filled, at.dim]),
        values: View::of(&inputs[2], [rows, filled, at.dim]),
        positions: View::of(positions, [rows, filled]),
        filled,
    };
    let query = View::of(&inputs[0], [at.seqs * at.row_tokens, at.heads * at.dim]);
    ReplayQueries { at, query, slots, scale: 0.9, window }
}

fn attended(ops: &TuneOps<'_>, random: &mut SplitMix, dim: usize, window: Option<usize>) {
    let (kv_heads, tokens) = (1 + random.below(2), 1 + random.below(6));
    let heads = kv_heads * (1 + random.below(3));
    let at = ChunkAt {
        seqs: 2,
        row_tokens: tokens + 1,
        first: 1,
        tokens,
        position: 9,
        heads,
        kv_heads,
        dim,
    };
    let filled = tokens + 5;
    let (rows, all) = (2 * kv_heads, 2 * at.row_tokens);
    // The chunk's own tokens and some of those before, in any order.
    let held = |random: &mut SplitMix| -> Vec<i32> {
        random.shuffled(filled).into_iter().map(|i| (4 + i) as i32).collect()
    };
    let positions: Vec<i32> = (0..rows).flat_map(|_| held(random)).collect();
    let counts = [all * heads * dim, rows * filled * dim, rows * filled * dim];
    let inputs = counts.map(|count| random.numbers(count));
    let d_out = random.numbers(all * heads * dim);
    let (shape, slot_shape) = ([all, heads * dim], [rows, filled, dim]);
    let forward = |inputs: &[Vec<f32>], out: &mut [f32], log_sums: &mut [f32]| {
        let log_sums = ViewMut::of(log_sums, [all, heads]);
        ops.attend_slots(
            queries(at, inputs, &positions, window),
            ViewMut::of(out, shape),
            log_sums,
        );
    };
    let (mut out, mut log_sums) = (vec![0.0; all * heads * dim], vec![0.0; all * heads]);
    forward(&inputs, &mut out, &mut log_sums);
    let mut gradients = counts.map(|count| vec![0.0; count]);
    let [d_query, d_keys, d_values] = &mut gradients;
    let done = ops.attend_slots_gradients(ReplayGradients {
        queries: queries(at, &inputs, &positions, window),
        out: View::of(&out, shape),
        log_sums: View::of(&log_sums, [all, heads]),
        d_out: View::of(&d_out, shape),
        d_query: ViewMut::of(d_query, shape),
        d_keys: ViewMut::of(d_keys, slot_shape),
        d_values: ViewMut::of(d_values, slot_shape),
    });
    done.expect("memory for small rows");
    check(&inputs, &gradients, |inputs| {
        let (mut out, mut log_sums) = (vec![0.0; all * heads * dim], vec![0.0; all * heads]);
        forward(inputs, &mut out, &mut log_sums);
        weighted(&out, &d_out)
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn norms_and_gates_have_the_slopes_of_their_outputs(
        seed: u64,
        rows in 1usize..6,
        dim in 1usize..40,
    ) {
        with_ops(|ops| {
            let random = &mut SplitMix::new(seed);
            normed(&ops, random, [rows, dim]);
            gated(&ops, random, [rows, dim], Activation::Silu);
            gated(&ops, random, [rows, dim], Activation::GeluTanh);
        });
    }

    #[test]
    fn branches_have_the_slopes_of_their_outputs(
        seed: u64,
        tokens in 1usize..40,
        rows in 1usize..20,
        rank in 1usize..6,
    ) {
        with_ops(|ops| branched(&ops, &mut SplitMix::new(seed), [tokens, rows], rank));
    }

    #[test]
    fn heads_have_the_slopes_of_their_losses(
        seed: u64,
        rows in 1usize..9,
        vocab in 1usize..40,
        block in 1usize..40,
    ) {
        let block = block.min(vocab);
        with_ops(|ops| scored(&ops, &mut SplitMix::new(seed), [rows, vocab], block));
    }

    #[test]
    fn attention_has_the_slopes_of_its_outputs(
        seed: u64,
        dim in 1usize..24,
        window in prop::option::of(1usize..8),
    ) {
        with_ops(|ops| attended(&ops, &mut SplitMix::new(seed), dim, window));
    }
}
