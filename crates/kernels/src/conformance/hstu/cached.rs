//! Whether a row's result depends on how a sequence is cut into steps: it must not, bit for bit,
//! wherever results do not depend on the batch.

use terrace_device::DType;

use super::attend::random_spec;
use super::hstu_case::{HstuCase, HstuSpec};
use super::hstu_run::{Chunk, HstuRun};
use super::spans::Mask;
use crate::conformance::{Report, SplitMix};
use crate::hstu::attention::AttendedRows;
use crate::ops::Ops;

/// Micro-batches of candidates that see each other begin where blocks of keys do, on every device.
const BLOCK: usize = 128;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    // In f32 no device splits keys.
    if !ops.arithmetic_class().deterministic && ops.activation() != DType::F32 {
        return;
    }
    for i in 0..24 {
        if report.skips("hstu_cached") {
            continue;
        }
        let mut spec = random_spec(random, i, 2);
        if matches!(spec.mask, Mask::Whole) {
            spec.mask = Mask::Causal;
        }
        spec.groups.size = spec.groups.size.next_power_of_two();
        let case = HstuCase::new(spec, ops.activation(), random);
        check_case(ops, &case, random, report);
    }
}

fn check_case(ops: &Ops, case: &HstuCase, random: &mut SplitMix, report: &mut Report) {
    let none = vec![0; case.spec.seqs.len()];
    let whole = case.spec.seqs.iter().map(|&[history, candidates]| Chunk {
        past: 0,
        new: history,
        first_candidate: 0,
        candidates,
    });
    let whole: Vec<Chunk> = whole.collect();
    let mut uncached = HstuRun::new(ops, case, &none, random);
    let want = uncached.step(&whole);
    let steps = cut(&case.spec, random);
    let mut last = HstuRun::new(ops, case, &none, random);
    let candidates = last.step_of(&whole, AttendedRows::Candidates);
    let mut cached = HstuRun::new(ops, case, &none, random);
    let mut got = Vec::new();
    for step in &steps {
        got.extend(cached.step(step));
    }
    got.sort_by_key(|(row, _)| *row);
    let bits = |rows: Vec<((usize, usize), Vec<f32>)>| -> Vec<u32> {
        rows.into_iter().flat_map(|(_, row)| row).map(f32::to_bits).collect()
    };
    let is_asked = |row: &(usize, usize)| candidates.iter().any(|(other, _)| other == row);
    let of_candidates = want.iter().filter(|(row, _)| is_asked(row)).cloned().collect();
    let name = format!("candidates alone, {}", case.name());
    let (alone, among) = (bits(candidates.clone()), bits(of_candidates));
    report.compare_exactly("hstu_cached", name, &alone, &among);
    let name = format!("{} steps, {}", steps.len(), case.name());
    report.compare_exactly("hstu_cached", name, &bits(got), &bits(want));
}

/// Histories in up to three steps, the last of which begins the candidates; then the others.
fn cut(spec: &HstuSpec, random: &mut SplitMix) -> Vec<Vec<Chunk>> {
    let cuts: Vec<[usize; 2]> = (spec.seqs.iter())
        .map(|[history, _]| {
            let mut cuts = [random.below(history + 1), random.below(history + 1)];
            cuts.sort_unstable();
            cuts
        })
        .collect();
    let firsts: Vec<usize> = (spec.seqs.iter())
        .map(|[_, candidates]| match (spec.has_bias, spec.groups.size) {
            // By position, which is counted on from the history.
            (true, _) => *candidates,
            (false, 1) => random.below(candidates + 1),
            (false, _) => BLOCK.min(*candidates),
        })
        .collect();
    let mut steps = vec![Vec::new(); 4];
    for (seq, &[history, candidates]) in spec.seqs.iter().enumerate() {
        let ([a, b], first) = (cuts[seq], firsts[seq]);
        for (step, (past, end)) in
            [(0, a), (a, b), (b, history), (history, history)].into_iter().enumerate()
        {
            let (first_candidate, candidates) = match step {
                2 => (0, first),
                3 => (first, candidates - first),
                _ => (0, 0),
            };
            steps[step].push(Chunk { past, new: end - past, first_candidate, candidates });
        }
    }
    steps.retain(|step: &Vec<Chunk>| step.iter().any(|chunk| 0 < chunk.new + chunk.candidates));
    steps
}
