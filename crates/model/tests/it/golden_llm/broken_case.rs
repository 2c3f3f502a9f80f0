//! Cases that must not pass, and files that are no cases.

use terrace_device::DType;
use terrace_golden::GoldenFileError;
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_model::golden::{
    FedAs, Feeding, GoldenModel, GoldenPrompt, ReferenceItem, ReferenceRun, check_case,
};
use terrace_model::{Decoder, Error};

fn ops() -> Result<Ops, terrace_kernels::Error> {
    Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::F32 })
}

fn llama() -> GoldenModel {
    let folder = terrace_testkit::golden_set("llm").join("llama_plain");
    assert!(GoldenModel::is_in(&folder));
    GoldenModel::open(&folder, &folder.join("config.json")).expect("a golden case")
}

#[test]
fn another_model_is_seen() {
    let mut case = llama();
    case.spec.norm_eps *= 100.0;
    let findings = check_case(&case, &[Feeding::ONE], |_| ops()).expect("it runs");
    assert!(!findings.passed(), "{findings:?}");
    assert!(findings.largest.location.contains("pages of 16, chunks of 7"), "{findings:?}");
}

#[test]
fn a_file_that_is_no_case_is_an_error() {
    let source = terrace_testkit::golden_set("llm").join("llama_plain");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || GoldenModel::open(folder.path(), &folder.path().join("config.json")).err();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(source.join(name), folder.path().join(name)).expect("golden weights");
    }
    assert!(!GoldenModel::is_in(folder.path()));
    assert!(matches!(open(), Some(Error::Golden(GoldenFileError::Read { .. }))));
    let golden = folder.path().join("golden.safetensors");
    std::fs::write(&golden, "not tensors").expect("the folder is writable");
    assert!(matches!(open(), Some(Error::Golden(GoldenFileError::Malformed { .. }))));
    std::fs::copy(source.join("model.safetensors"), &golden).expect("golden weights");
    let error = open().expect("weights are no prompts").to_string();
    assert!(error.contains("it has no p0.input_ids"), "{error}");
}

/// The golden logits as a reference run would write them.
fn reference_of(case: &GoldenModel) -> ReferenceRun {
    let item = |prompt: &GoldenPrompt| ReferenceItem {
        prompt_ids: prompt.input_ids.clone(),
        greedy_ids: prompt.greedy_ids.clone(),
        top5_first8: (0..8)
            .map(|made| best_five(prompt.expected(prompt.input_ids.len() - 1 + made)))
            .collect(),
    };
    ReferenceRun { items: case.prompts.iter().map(item).collect() }
}

fn best_five(logits: &[f32]) -> Vec<(u32, f32)> {
    let sum: f64 = logits.iter().map(|&score| f64::from(score).exp()).sum();
    let mut best: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    best.sort_by(|a, b| b.1.total_cmp(&a.1));
    best.truncate(5);
    best.into_iter().map(|(token, score)| (token, score - sum.ln() as f32)).collect()
}

#[test]
fn a_decoder_is_led_along_the_reference() {
    let case = llama();
    let ops = ops().expect("a CPU");
    let decoder = Decoder::place(case.spec.clone(), case.tensors.clone(), &ops, || {});
    let decoder = decoder.expect("the CPU takes all");
    let groups = case.spec.kv_groups(16, DType::F32);
    let mut reference = reference_of(&case);
    let findings = reference.check(&decoder, &ops, &groups, FedAs::Served).expect("it runs");
    assert_eq!(findings.compared, 8 * 5 * case.prompts.len());
    assert!(findings.largest_difference < 1e-3, "{findings:?}");
    assert_eq!(findings.greedy_equal, findings.greedy_tokens);

    reference.items[0].top5_first8[3][4].1 += 0.5;
    let off = reference.check(&decoder, &ops, &groups, FedAs::Served).expect("it runs");
    assert!((off.largest_difference - 0.5).abs() < 1e-3, "{off:?}");
    assert!(findings.mean_difference < off.mean_difference, "{off:?}");

    reference.items[0].greedy_ids[0] = case.spec.vocab as u32;
    assert!(matches!(
        reference.check(&decoder, &ops, &groups, FedAs::Served),
        Err(Error::TokenUnknown { .. })
    ));
}
