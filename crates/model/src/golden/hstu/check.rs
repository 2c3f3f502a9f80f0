//! All golden data of a folder.

use std::path::Path;

use terrace_golden::{GoldenFolder, SetFindings};
use terrace_kernels::Ops;

use super::case::Case;
use super::{attention, layers, metrics, positions, ranking, sequential, strip, stu};
use crate::error::Error;

type CheckCase = fn(&Case, &Ops, &mut SetFindings) -> Result<(), Error>;

/// How each set is checked: its name, how its cases' names begin.
const SETS: [(&str, &str, CheckCase); 8] = [
    ("attention", "attn_", attention::check),
    ("layers", "layer_nv", layers::check),
    ("stu", "stu_meta", stu::check),
    ("sequential", "seq_meta", sequential::check),
    ("ranking", "ranking_nv", ranking::check),
    ("positions", "position_time", positions::check),
    ("strip", "strip_cached", strip::check),
    ("metrics", "metrics", metrics::check),
];

/// What was found of each set that the folder has.
pub fn check_folder(folder: &Path, ops: &Ops) -> Result<Vec<SetFindings>, Error> {
    let folder = GoldenFolder::open(folder)?;
    let mut sets = Vec::new();
    for (set, prefix, check) in SETS {
        let cases = Case::all(&folder, prefix)?;
        let tolerance = cases.iter().map(|case| case.tolerance).fold(0.0, f32::max);
        let mut findings = SetFindings::new(set, tolerance);
        for case in &cases {
            check(case, ops, &mut findings)?;
            findings.cases += 1;
        }
        if !cases.is_empty() {
            sets.push(findings);
        }
    }
    Ok(sets)
}
