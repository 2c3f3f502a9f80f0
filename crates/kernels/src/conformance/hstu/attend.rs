//! Attention of random steps, held to the reference.

use terrace_device::DType;

use super::hstu_case::{HstuCase, HstuSpec};
use super::hstu_run::{Chunk, HstuRun};
use super::spans::{Groups, Mask};
use crate::conformance::numbers;
use crate::conformance::{Report, SplitMix};
use crate::hstu::attention::AttendedRows;
use crate::ops::{Ops, Table};
use crate::pages::page_layout::PageLayout;
use crate::quantise::byte_format::ByteFormat;

/// Sums over some hundred keys.
const TOLERANCE: f64 = 1e-5;
/// Queries and weights are rounded to bf16 on their way.
const TOLERANCE_BF16: f64 = 1.0 / 64.0;
/// SiLU that is rounded otherwise may round a page's number the other way.
const TOLERANCE_FP8: f64 = 1.0 / 16.0;

const DTYPES: [DType; 6] =
    [DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2, DType::I8];
const PAGE_TOKENS: [usize; 6] = [1, 3, 4, 32, 64, 128];
const PASTS: [usize; 8] = [0, 1, 63, 64, 65, 127, 129, 300];
const NEWS: [usize; 6] = [0, 1, 2, 31, 65, 140];
const CANDIDATES: [usize; 5] = [0, 1, 7, 100, 130];
/// Of keys and of values, and the most heads: wide ones are slow to check.
const HEADS: [([usize; 2], usize); 9] = [
    ([1, 1], 3),
    ([7, 5], 4),
    ([16, 16], 2),
    ([33, 64], 2),
    ([64, 64], 3),
    ([100, 36], 2),
    ([128, 128], 2),
    ([256, 256], 1),
    ([64, 256], 1),
];

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for i in 0..60 {
        if report.skips("hstu_attend") {
            continue;
        }
        let spec = random_spec(random, i, 3);
        let case = HstuCase::new(spec, ops.activation(), random);
        check_case(ops, &case, random, report);
    }
}

/// Every other case has a form that tensor cores take.
pub(super) fn random_spec(random: &mut SplitMix, i: usize, most_seqs: usize) -> HstuSpec {
    let is_regular = i.is_multiple_of(2);
    let ([key_dim, value_dim], most_heads) = match is_regular {
        true => HEADS[[4, 6, 7][i / 2 % 3]],
        false => HEADS[random.below(HEADS.len())],
    };
    let page_tokens = match is_regular {
        true => PAGE_TOKENS[3 + random.below(3)],
        false => PAGE_TOKENS[random.below(PAGE_TOKENS.len())],
    };
    let dtype = match is_regular {
        true => DTYPES[[2, 2, 3, 4][random.below(4)]],
        false => DTYPES[i / 2 % DTYPES.len()],
    };
    let kv_heads = 1 + random.below(most_heads);
    let layers = 1 + random.below(3);
    let mut seqs = Vec::new();
    for _ in 0..1 + random.below(most_seqs) {
        let history = PASTS[random.below(PASTS.len())] + NEWS[random.below(NEWS.len())];
        seqs.push([history, CANDIDATES[random.below(CANDIDATES.len())]]);
    }
    // A step has at least one row.
    seqs[0][0] = seqs[0][0].max(1);
    HstuSpec {
        layout: PageLayout { layers, kv_heads, page_tokens, key_dim, value_dim, dtype },
        layer: random.below(layers),
        activates: random.below(2) == 0,
        mask: Mask::random(random),
        groups: Groups { size: [1, 1, 2, 5][random.below(4)], causal: random.below(2) == 0 },
        has_bias: random.below(4) == 0,
        has_factors: random.below(3) == 0,
        gap: [0, 8, 3][random.below(3)],
        page_gap: [0, 0, 48][random.below(3)],
        seqs,
    }
}

fn check_case(ops: &Ops, case: &HstuCase, random: &mut SplitMix, report: &mut Report) {
    let mut chunks = Vec::new();
    for (seq, &[history, candidates]) in case.spec.seqs.iter().enumerate() {
        let new = NEWS[random.below(NEWS.len())].min(history);
        // The first has a row at least.
        let new = if seq == 0 { new.max(1) } else { new };
        chunks.push(Chunk { past: history - new, new, first_candidate: 0, candidates });
    }
    let past: Vec<usize> = chunks.iter().map(|chunk| chunk.past).collect();
    let mut run = HstuRun::new(ops, case, &past, random);
    let before = run.pages();
    let asked = match random.below(3) {
        0 => AttendedRows::Candidates,
        _ => AttendedRows::All,
    };
    let attended = run.step_of(&chunks, asked);
    let name = format!("{}, {past:?} past, {asked:?}", case.name());
    let limit = limit(ops, case);
    let want: Vec<f32> =
        attended.iter().flat_map(|((seq, row), _)| case.wanted(*seq, *row)).collect();
    let got: Vec<f32> = attended.into_iter().flat_map(|(_, row)| row).collect();
    report.compare("hstu_attend", name.clone(), limit, &got, &want);
    let want = run.pages_wanted(&before, &chunks);
    let [got, want] = [run.pages(), want].map(|bytes| page_numbers(case, &run, &bytes));
    let (got, want) = (known(&got, &want), known(&want, &want));
    let limit = page_limit(ops, case.spec.layout.dtype);
    report.compare("hstu_attend", format!("pages, {name}"), limit, &got, &want);
}

fn limit(ops: &Ops, case: &HstuCase) -> f64 {
    let dtype = case.spec.layout.dtype;
    let on_matrix_units = matches!(&ops.table, Table::Cpu(ops) if ops.ctx.has_prompt_tiles());
    let limit = match (ops.activation(), dtype) {
        (DType::F32, _) if !case.spec.activates => TOLERANCE,
        (DType::F32, DType::F32) => TOLERANCE,
        (_, DType::F8E4m3 | DType::F8E5m2 | DType::I8) => TOLERANCE_FP8,
        _ => TOLERANCE_BF16,
    };
    if on_matrix_units { limit.max(TOLERANCE_BF16) } else { limit }
}

/// A page's largest number may be off by one unit of its last place.
fn page_limit(ops: &Ops, dtype: DType) -> f64 {
    match dtype {
        // Those of half-width activations do not show more digits.
        DType::F32 if ops.activation() != DType::F32 => 4e-6,
        DType::F32 => 2e-6,
        DType::F16 => 1.0 / 1024.0,
        DType::F8E4m3 => 1.0 / 14.0,
        DType::F8E5m2 => 1.0 / 7.0,
        DType::I8 => 1.0 / 120.0,
        _ => 1.0 / 128.0,
    }
}

/// The numbers of pages, and 0 where nothing should be written and nothing was.
fn known(pages: &[f32], want: &[f32]) -> Vec<f32> {
    let untouched = |(x, want): (&f32, &f32)| x.is_nan() && want.is_nan();
    pages.iter().zip(want).map(|pair| if untouched(pair) { 0.0 } else { *pair.0 }).collect()
}

/// All numbers of pages, read by the layout; not a number where a poisoned slot is untouched.
fn page_numbers(case: &HstuCase, run: &HstuRun<'_>, pages: &[u8]) -> Vec<f32> {
    let PageLayout { layers, kv_heads, page_tokens, key_dim, value_dim, dtype } = case.spec.layout;
    let rows = kv_heads * page_tokens;
    let mut found = Vec::new();
    for page in 0..run.page_count() {
        let mut rest = &pages[page * run.page_bytes()..];
        for dim in [key_dim, value_dim].into_iter().cycle().take(2 * layers) {
            let side;
            (side, rest) = rest.split_at(rows * dim * dtype.bytes());
            let Some(format) = ByteFormat::of(dtype) else {
                found.extend(numbers::read(side, dtype));
                continue;
            };
            let scales;
            (scales, rest) = rest.split_at((4 * rows).next_multiple_of(16));
            for (row, scale) in side.chunks_exact(dim).zip(numbers::read(scales, DType::F32)) {
                found.extend(row.iter().map(|number| format.decode(*number, scale)));
            }
        }
    }
    found
}
