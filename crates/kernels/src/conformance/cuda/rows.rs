//! Gates in both layouts, and random numbers.

use half::{bf16, f16};
use terrace_device::{DType, Device};

use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::report::Limit;
use crate::conformance::{Report, SIZES, SplitMix};
use crate::elementwise::gate;
use crate::elementwise::gate::Activation;
use crate::elementwise::gate::cuda::GateKernel;
use crate::random::fill_random::cuda::FillRandomKernels;
use crate::random::fill_random::reference::{bits, number};

/// The exponent of a GELU reaches 12 here, which makes twelve of each rounding before it.
const GATE_TOLERANCE: f64 = 4e-6;

pub(super) fn gate(
    kernel: &GateKernel,
    device: &Device,
    act: DType,
    random: &mut SplitMix,
    report: &mut Report,
) {
    let limit = Limit::of(act, GATE_TOLERANCE);
    for dim in SIZES.into_iter().chain([8, 1536, 14_336]) {
        for kind in [Activation::Silu, Activation::GeluTanh] {
            if report.skips("gate") {
                continue;
            }
            let tokens = 1 + random.below(20);
            let numbers = random.numbers(2 * tokens * dim).iter().map(|x| 4.0 * x).collect();
            let numbers = rounded(numbers, act);
            let (gates, ups) = numbers.split_at(tokens * dim);
            let mut want = vec![f32::NAN; tokens * dim];
            gate::reference::gate(gates, ups, kind, &mut want);

            let mut check = |layout: &str, got: &Placed| {
                let case = format!("{layout} {} {kind:?} {tokens}x{dim}", act.name());
                report.compare_each("gate", case, limit, &got.to_numbers(), &want);
            };
            let mut out = Placed::poisoned(device, act, [tokens, dim]);
            let both = side_by_side(gates, ups, dim, dim);
            let both = Placed::numbers(device, act, &both, [tokens, 2 * dim]);
            let [gate, up] = [0, dim].map(|start| both.view().columns(start, dim));
            kernel.gate(gate, up, kind, out.view_mut());
            check("blocks", &out);
            if dim.is_multiple_of(8) {
                let mut out = Placed::poisoned(device, act, [tokens, dim]);
                let both = side_by_side(gates, ups, dim, 8);
                let both = Placed::numbers(device, act, &both, [tokens, 2 * dim]);
                kernel.gate_interleaved(both.view(), kind, out.view_mut());
                check("interleaved", &out);
            }
        }
    }
}

/// Rows of `run` gates, `run` ups, and so on.
fn side_by_side(gates: &[f32], ups: &[f32], dim: usize, run: usize) -> Vec<f32> {
    let rows = gates.chunks_exact(dim).zip(ups.chunks_exact(dim));
    let runs = rows.flat_map(|(gates, ups)| gates.chunks(run).zip(ups.chunks(run)));
    runs.flat_map(|(gates, ups)| gates.iter().chain(ups)).copied().collect()
}

pub(super) fn fill_random(
    kernels: &FillRandomKernels,
    device: &Device,
    random: &mut SplitMix,
    report: &mut Report,
) {
    for count in [1, 255, 257, 300_001] {
        if report.skips("fill_random") {
            continue;
        }
        let (seed, factor) = (random.bits(), 0.02);
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let mut out = Placed::poisoned(device, dtype, [count]);
            kernels.numbers(out.view_mut(), seed, factor);
            let want = (0..count as u64).map(|i| match dtype {
                DType::F16 => f16::from_f32(number(i, seed, factor)).to_f32(),
                DType::Bf16 => bf16::from_f32(number(i, seed, factor)).to_f32(),
                _ => number(i, seed, factor),
            });
            let (case, want) = (format!("{} {count}", dtype.name()), want.collect::<Vec<_>>());
            report.compare_exactly("fill_random", case, &out.to_numbers(), &want);
        }
        let mut out = Placed::poisoned(device, DType::U8, [4 * count]);
        kernels.bits(out.view_mut(), seed);
        let want: Vec<u8> = (0..count as u64).flat_map(|i| bits(i, seed).to_le_bytes()).collect();
        report.compare_exactly("fill_random", format!("bits {count}"), &out.bytes(), &want);
    }
}
