//! Every set of a folder of golden data, through the ops of one device.

use std::path::Path;

use terrace_kernels::Ops;

use super::attention_check::AttentionCheck;
use super::case_kinds::{AttentionCase, PolicyRun, QuantiserCase};
use super::driven_slots::PagedOps;
use super::error::GoldenError;
use super::policy_case::PolicyCase;
use super::policy_check::PolicyCheck;
use super::quantiser_check::QuantiserCheck;
use terrace_golden::{GoldenFolder, SetFindings};

/// Slots a page: one, some that divide nothing, and more than a cache has.
const PAGE_SLOTS: [usize; 3] = [1, 16, 64];

/// The ops must compute in f32.
pub fn check_folder(folder: &Path, ops: &Ops) -> Result<Vec<SetFindings>, GoldenError> {
    let folder = GoldenFolder::open(folder)?;
    let [policy, policy_buffers] = check_policies(&folder, ops, "policy", "buffers")?;
    let [smart, smart_buffers] = check_policies(&folder, ops, "smart", "smart-buf")?;
    let (attention, quant) = (check_attention(&folder, ops)?, check_quantisers(&folder, ops)?);
    let sets = [policy, policy_buffers, smart, smart_buffers, attention, quant];
    Ok(sets.into_iter().filter(|set| set.cases > 0 || !set.left_out.is_empty()).collect())
}

/// The runs of a set, with rows as they are; and those of `buffers`, whose rows are quantised, in
/// slots that are quantised too.
fn check_policies(
    folder: &GoldenFolder,
    ops: &Ops,
    set: &'static str,
    buffers: &'static str,
) -> Result<[SetFindings; 2], GoldenError> {
    let mut findings = SetFindings::new(set, SetFindings::TOLERANCE);
    let mut rounded = SetFindings::new(buffers, SetFindings::ROUNDED_TOLERANCE);
    for golden in folder.cases::<PolicyRun>("policy_run")? {
        if golden.name.split('/').next() != Some(set) {
            continue;
        }
        let inputs = folder.tensors(&golden.about.inputs)?;
        let case = PolicyCase::new(&golden, &inputs)?;
        findings.left_out.extend(case.left_out.iter().cloned());
        if case.rows.is_empty() {
            continue;
        }
        findings.cases += 1;
        let check = PolicyCheck { golden: &golden, inputs: &inputs, case: &case };
        rounded.cases += usize::from(case.quantised.is_some());
        for page_slots in PAGE_SLOTS {
            let on = PagedOps { ops, page_slots };
            check.run(on, &mut findings)?;
            check.run_quantised(on, &mut findings, &mut rounded)?;
        }
    }
    findings.close.dedup();
    Ok([findings, rounded])
}

fn check_attention(folder: &GoldenFolder, ops: &Ops) -> Result<SetFindings, GoldenError> {
    let mut findings = SetFindings::new("attention", SetFindings::TOLERANCE);
    for golden in folder.cases::<AttentionCase>("attention")? {
        findings.cases += 1;
        findings.left_out.push(format!("{} softcap: no op has it", golden.name));
        let check = AttentionCheck::new(&golden)?;
        for page_slots in PAGE_SLOTS {
            check.run(PagedOps { ops, page_slots }, &mut findings)?;
        }
    }
    Ok(findings)
}

fn check_quantisers(folder: &GoldenFolder, ops: &Ops) -> Result<SetFindings, GoldenError> {
    let mut findings = SetFindings::new("quant", SetFindings::TOLERANCE);
    for golden in folder.cases::<QuantiserCase>("quantizer")? {
        let Some(check) = QuantiserCheck::new(&golden)? else {
            let why = "heads are quantised together, which no slot by itself can be";
            findings.left_out.push(format!("{}: {why}", golden.name));
            continue;
        };
        findings.cases += 1;
        for page_slots in PAGE_SLOTS {
            check.run(PagedOps { ops, page_slots }, &mut findings)?;
        }
    }
    Ok(findings)
}
