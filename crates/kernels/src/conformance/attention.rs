//! Attention over pages, and the commit of live rows into them.

use terrace_device::DType;

use super::{KvCase, KvSpec, Report, SplitMix};
use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::Compute;
use crate::cpu_ops::CpuOps;
use crate::pages::page_layout::PageLayout;

/// Weighted means of numbers below 1, with an exponential of 2 units in the last place.
const ATTENTION_TOLERANCE: f64 = 4e-6;

/// Numbers and weights rounded to 8 bits, and scores too.
const ATTENTION_TOLERANCE_BF16: f64 = 0.02;

const DTYPES: [DType; 5] = [DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2];

pub(super) fn check(ops: &CpuOps, random: &mut SplitMix, report: &mut Report) {
    let specs: Vec<KvSpec> = (0..60).map(|i| random_spec(random, i)).collect();
    for spec in &specs {
        if report.skips("paged_attention") {
            continue;
        }
        let mut case = KvCase::new(spec.clone(), random);
        let (got, want) = (case.attend(ops), case.attention_wanted());
        let limit = tolerance(ops);
        report.compare("paged_attention", name(spec), limit, &got, &want);
    }
    for spec in &specs {
        if report.skips("commit") {
            continue;
        }
        let mut case = KvCase::new(spec.clone(), random);
        let want = case.pages_after_commit();
        case.commit();
        report.compare_exactly("commit", name(spec), case.pages(), &want);
    }
}

/// Of f32, or of products in bf16.
fn tolerance(ops: &CpuOps) -> f64 {
    match (ops.level(), ops.compute()) {
        (CpuLevel::Amx, Compute::Fast) => ATTENTION_TOLERANCE_BF16,
        _ => ATTENTION_TOLERANCE,
    }
}

fn random_spec(random: &mut SplitMix, i: usize) -> KvSpec {
    let dims = [1, 2, 3, 8, 15, 16, 17, 32, 33, 64, 65, 100, 128];
    let kv_heads = 1 + random.below(3);
    let layout = PageLayout {
        layers: 1 + random.below(3),
        kv_heads,
        page_tokens: [1, 2, 3, 16, 64][random.below(5)],
        key_dim: dims[random.below(dims.len())],
        value_dim: dims[random.below(dims.len())],
        dtype: DTYPES[i % DTYPES.len()],
    };
    let seqs = (0..1 + random.below(3))
        .map(|_| {
            let past = [0, 1, 15, 63, 64, 65, 200, 255, 256, 600][random.below(10)];
            [past, 1 + [0, 1, 5, 40, 70][random.below(5)]]
        })
        .collect();
    KvSpec {
        layout,
        layer: random.below(layout.layers),
        heads: kv_heads * (1 + random.below(5)),
        window: (random.below(2) == 0).then(|| [1, 2, 17, 64, 1000][random.below(5)]),
        seqs,
        prompt_tokens: [0, 30, usize::MAX][random.below(3)],
    }
}

fn name(spec: &KvSpec) -> String {
    let layout = &spec.layout;
    format!(
        "{} {}/{} heads of {}/{}, pages of {}, window {:?}, seqs {:?}",
        layout.dtype.name(),
        spec.heads,
        layout.kv_heads,
        layout.key_dim,
        layout.value_dim,
        layout.page_tokens,
        spec.window,
        spec.seqs
    )
}
