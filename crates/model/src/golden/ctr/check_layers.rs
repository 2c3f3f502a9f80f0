//! All layers and small networks of a folder.

use std::path::Path;

use terrace_golden::{GoldenFolder, SetFindings};
use terrace_kernels::Ops;

use super::layer_case::LayerCase;
use crate::ctr::CtrModel;
use crate::error::Error;

/// What f32 arithmetic may be from double precision, relative to numbers above 1.
const TOLERANCE: f32 = 3e-6;

/// What was found of each kind of case, and whether HugeCTR's files give the same bits as weights
/// by name.
pub(super) fn check_layers(
    path: &Path,
    folder: &GoldenFolder,
    ops: &Ops,
) -> Result<Vec<SetFindings>, Error> {
    let mut sets = Vec::new();
    let mut flat = SetFindings::new("dense file", 0.0);
    for (kind, set) in [("layer", "layers"), ("network", "networks")] {
        let mut findings = SetFindings::new(set, TOLERANCE);
        for case in LayerCase::all(path, folder, kind)? {
            let run = |weights| {
                let model = CtrModel::place(ops, &case.network, &weights)?;
                case.run(ops, &model, 0..case.samples()?)
            };
            let found = run(case.named_weights()?)?;
            findings.compare(&found, case.wanted()?, || case.name.clone());
            findings.cases += 1;
            flat.compare_exactly(&run(case.hugectr_weights()?)?, &found, || case.name.clone());
            flat.cases += 1;
        }
        sets.push(findings);
    }
    sets.push(flat);
    Ok(sets)
}

#[cfg(test)]
mod tests;
