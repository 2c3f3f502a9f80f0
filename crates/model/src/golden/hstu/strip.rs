//! Cached tokens taken off the features of a batch.

use terrace_golden::SetFindings;
use terrace_kernels::Ops;

use super::case::Case;
use crate::error::Error;
use crate::hstu::JaggedFeatures;

pub(super) fn check(case: &Case, _: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    let users = case.count("batch")?;
    let features = JaggedFeatures {
        values: case.tensors.i64s("values")?.to_vec(),
        lengths: case.integers("lengths")?,
        users,
    };
    for number in (0..).take_while(|number| case.tensors.has(&format!("case{number}.cached"))) {
        let stripped = features.strip_cached(&case.integers(&format!("case{number}.cached"))?);
        let at = || format!("{}: case {number}", case.name);
        let values = case.tensors.i64s(&format!("case{number}.values"))?;
        findings.compare_exactly(&stripped.values, values, at);
        let lengths = case.integers(&format!("case{number}.lengths"))?;
        findings.compare_exactly(&stripped.lengths, &lengths, at);
        findings.numbers += values.len();
    }
    Ok(())
}
