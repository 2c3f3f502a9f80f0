//! The decoder against the original implementations: every case of the `llm` set, through pages of
//! several sizes, in whole and chunked prompts, alone and among others.

mod broken_case;
mod smollm2;

use std::path::Path;

use terrace_kernels::{Compute, CpuLevel, CpuOptions, Ops};
use terrace_model::golden::{CaseFindings, Feeding, GoldenModel, check_case};
use terrace_model::{Error, LayerGroup};

#[test]
fn golden_llm_logits_and_greedy_ids() {
    let mut ran = 0;
    for (name, folder) in terrace_testkit::golden_cases("llm") {
        match case_findings(&folder) {
            Ok(findings) => {
                assert!(findings.passed() && 0 < findings.greedy_tokens, "{name}: {findings:?}");
                println!("golden llm: {name} ok");
                ran += 1;
            }
            Err(Error::Unsupported(what)) => {
                println!("golden llm: {name} skipped, its family is not built yet: {what}");
            }
            Err(error) => panic!("golden llm: {name}: {error}"),
        }
    }
    assert!(ran > 0, "no golden case could be run");
}

/// Both styles of configuration must give the same model.
fn case_findings(folder: &Path) -> Result<CaseFindings, Error> {
    let mut findings = CaseFindings::default();
    for config in GoldenModel::config_files(folder) {
        let case = GoldenModel::open(folder, &config)?;
        for level in CpuLevel::available() {
            let all = level == CpuLevel::detect();
            let feedings = if all { Feeding::all() } else { vec![Feeding::ONE] };
            let ops = |_: &[LayerGroup]| {
                Ops::cpu(CpuOptions { threads: 2, level: Some(level), compute: Compute::F32 })
            };
            findings.add(check_case(&case, &feedings, ops)?);
        }
    }
    Ok(findings)
}
