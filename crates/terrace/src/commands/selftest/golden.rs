//! Golden models against what their original implementations computed.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use terrace_device::DType;
use terrace_model::Error;
use terrace_model::golden::{CaseFindings, Feeding, GoldenModel, check_case};

use super::tested_device::TestedDevice;

pub struct GoldenPlan<'a> {
    pub folders: &'a [PathBuf],
    pub quick: bool,
}

pub struct GoldenReport {
    rows: Vec<Row>,
}

struct Row {
    case: String,
    outcome: Outcome,
}

enum Outcome {
    Ran(CaseFindings),
    /// Its family is not built.
    Skipped(String),
}

/// An error when a model is not what it should be; the table is in it.
pub fn check(device: &TestedDevice, plan: &GoldenPlan<'_>) -> Result<GoldenReport> {
    let mut rows = Vec::new();
    for folder in plan.folders {
        for case in cases(folder)? {
            let name = case.file_name().unwrap_or(case.as_os_str()).to_string_lossy().into_owned();
            let outcome = match check_folder(device, &case, plan.quick) {
                Ok(findings) => Outcome::Ran(findings),
                Err(Error::Unsupported(what)) => Outcome::Skipped(what),
                Err(error) => return Err(error).context(name),
            };
            rows.push(Row { case: name, outcome });
        }
    }
    let report = GoldenReport { rows };
    let wrong = report.findings().filter(|findings| !findings.passed()).count();
    if wrong > 0 {
        bail!("{wrong} golden models are not what they should be\n{report}");
    }
    if report.findings().next().is_none() {
        bail!("no golden model could be run\n{report}");
    }
    Ok(report)
}

/// The folder itself, or those in it that are cases.
fn cases(folder: &Path) -> Result<Vec<PathBuf>> {
    if GoldenModel::is_in(folder) {
        return Ok(vec![folder.into()]);
    }
    let entries =
        folder.read_dir().with_context(|| format!("cannot read folder {}", folder.display()))?;
    let mut cases = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if GoldenModel::is_in(&path) {
            cases.push(path);
        }
    }
    if cases.is_empty() {
        bail!("no golden.safetensors in {} or in a folder of it", folder.display());
    }
    cases.sort();
    Ok(cases)
}

/// In every style in which its configuration was written.
fn check_folder(device: &TestedDevice, folder: &Path, quick: bool) -> Result<CaseFindings, Error> {
    let feedings = if quick { vec![Feeding::ONE] } else { Feeding::all() };
    let mut findings = CaseFindings::default();
    for config in GoldenModel::config_files(folder) {
        let case = GoldenModel::open(folder, &config)?;
        findings.add(check_case(&case, &feedings, |groups| {
            device.ops(DType::F32, groups.iter().map(|group| group.layout))
        })?);
    }
    Ok(findings)
}

impl GoldenReport {
    fn findings(&self) -> impl Iterator<Item = &CaseFindings> {
        self.rows.iter().filter_map(|row| match &row.outcome {
            Outcome::Ran(findings) => Some(findings),
            Outcome::Skipped(_) => None,
        })
    }
}

impl fmt::Display for GoldenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["case", "largest difference", "greedy ids"];
        write!(f, "{:<24}  {:>18}  {}", header[0], header[1], header[2])?;
        for Row { case, outcome } in &self.rows {
            match outcome {
                Outcome::Skipped(why) => write!(f, "\n{case:<24}  {:>18}  {why}", "skipped")?,
                Outcome::Ran(findings) => {
                    let CaseFindings { largest, greedy_tokens, greedy_wrong } = findings;
                    write!(f, "\n{case:<24}  {:>18.1e}  ", largest.value)?;
                    match greedy_wrong {
                        0 => write!(f, "all {greedy_tokens} equal")?,
                        _ => write!(f, "{greedy_wrong} of {greedy_tokens} differ")?,
                    }
                    if !findings.passed() {
                        write!(f, "; worst: {}", largest.location)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: TestedDevice = TestedDevice::Cpu { threads: 1, level: None };

    fn llm() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/llm")
    }

    #[test]
    fn a_folder_of_cases_is_checked_case_by_case() {
        let report = check(&DEVICE, &GoldenPlan { folders: &[llm()], quick: true }).unwrap();
        assert!(5 < report.rows.len());
        let table = report.to_string();
        assert!(table.contains("llama_plain") && table.contains("equal"), "{table}");
        assert!(!table.contains("differ;"), "{table}");
    }

    #[test]
    fn a_single_case_may_be_named() {
        let folders = [llm().join("qwen3"), llm().join("yi")];
        let report = check(&DEVICE, &GoldenPlan { folders: &folders, quick: true }).unwrap();
        let names: Vec<_> = report.rows.iter().map(|row| row.case.as_str()).collect();
        assert_eq!(names, ["qwen3", "yi"]);
    }

    #[test]
    fn a_wrong_model_and_an_empty_folder_are_errors() {
        let check = |folder: &Path| {
            let plan = GoldenPlan { folders: &[folder.into()], quick: true };
            check(&DEVICE, &plan).err().expect("it must not pass").to_string()
        };
        let folder = tempfile::tempdir().unwrap();
        assert!(check(folder.path()).starts_with("no golden.safetensors in "));
        for name in ["config.json", "model.safetensors", "golden.safetensors"] {
            std::fs::copy(llm().join("llama_plain").join(name), folder.path().join(name)).unwrap();
        }
        let config = folder.path().join("config.json");
        let text = std::fs::read_to_string(&config).unwrap();
        let theta = text.replace("\"rope_theta\": 10000.0", "\"rope_theta\": 5000.0");
        assert_ne!(theta, text);
        std::fs::write(&config, theta).unwrap();
        let error = check(folder.path());
        assert!(error.contains("1 golden models are not") && error.contains("worst: "), "{error}");
    }
}
