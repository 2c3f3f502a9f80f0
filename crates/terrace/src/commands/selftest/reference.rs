//! A model of full size along the tokens of a reference run.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;
use terrace_device::DType;
use terrace_model::golden::{FedAs, ForcedFindings, ReferenceRun};
use terrace_model::{Decoder, Families, LoadedModel};

use super::tested_device::TestedDevice;

/// Tokens of a page; any number would do.
const PAGE_TOKENS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckPrecision {
    F32,
    F16,
    Bf16,
}

pub struct ReferencePlan<'a> {
    pub reference: &'a Path,
    pub model: &'a Path,
    pub precision: CheckPrecision,
    pub mean_limit: Option<f64>,
    pub largest_limit: Option<f64>,
}

pub struct ReferenceReport {
    /// However the text came to the model.
    findings: Vec<(FedAs, ForcedFindings)>,
    mean_limit: f64,
    largest_limit: f64,
}

/// An error when a difference is above its limit; the numbers are in it.
pub fn check(device: &TestedDevice, plan: &ReferencePlan<'_>) -> Result<ReferenceReport> {
    let (dtype, mean_limit, largest_limit) = match plan.precision {
        CheckPrecision::F32 => (DType::F32, 1e-3, 1e-3),
        CheckPrecision::F16 => (DType::F16, 0.10, 0.30),
        CheckPrecision::Bf16 => (DType::Bf16, 0.10, 0.30),
    };
    let reference = ReferenceRun::read(plan.reference)?;
    let LoadedModel { spec, tensors, .. } = LoadedModel::open(plan.model, &Families::known())?;
    let groups = spec.kv_groups(PAGE_TOKENS, dtype);
    let ops = device.ops(dtype, groups.iter().map(|group| group.layout))?;
    let decoder = Decoder::place(spec, tensors, &ops, || {})?;
    let mut findings = Vec::new();
    for fed in FedAs::ALL {
        findings.push((fed, reference.check(&decoder, &ops, &groups, fed)?));
    }
    let report = ReferenceReport {
        findings,
        mean_limit: plan.mean_limit.unwrap_or(mean_limit),
        largest_limit: plan.largest_limit.unwrap_or(largest_limit),
    };
    if !report.passed() {
        bail!("the model is too far from the reference\n{report}");
    }
    Ok(report)
}

impl ReferenceReport {
    fn passed(&self) -> bool {
        self.findings.iter().all(|(_, findings)| {
            0 < findings.compared
                && findings.mean_difference <= self.mean_limit
                && findings.largest_difference <= self.largest_limit
        })
    }
}

impl fmt::Display for ReferenceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReferenceReport { findings, mean_limit, largest_limit } = self;
        for (i, (fed, findings)) in findings.iter().enumerate() {
            let how = match fed {
                FedAs::Served => "prompts whole, then token by token",
                FedAs::Prompts => "all as prompts",
                FedAs::Tokens => "all token by token",
            };
            let between = if i == 0 { "" } else { "\n\n" };
            writeln!(f, "{between}{how}")?;
            writeln!(f, "log-probabilities   {} compared", findings.compared)?;
            let mean = findings.mean_difference;
            writeln!(f, "mean difference     {mean:.1e} nat, limit {mean_limit}")?;
            let first = findings.first_mean_difference;
            writeln!(f, "  of first tokens   {first:.1e} nat")?;
            let largest = findings.largest_difference;
            writeln!(f, "largest difference  {largest:.1e} nat, limit {largest_limit}")?;
            let (equal, tokens) = (findings.greedy_equal, findings.greedy_tokens);
            write!(f, "greedy ids          {equal} of {tokens} as the reference chose")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use terrace_testkit::TinyModel;

    use super::*;

    fn check_tiny(precision: CheckPrecision, mean_limit: Option<f64>) -> Result<ReferenceReport> {
        let model = TinyModel::new();
        let path = model.path().join("reference.json");
        // A model this small is far from any number that one could guess.
        let best = json!([[5, -0.001]]);
        let item = json!({"prompt_ids": [7, 9, 30], "greedy_ids": [5, 6], "top5_first8": [best]});
        std::fs::write(&path, json!({"items": [item]}).to_string()).unwrap();
        let plan = ReferencePlan {
            reference: &path,
            model: &model.path(),
            precision,
            mean_limit,
            largest_limit: mean_limit,
        };
        check(&TestedDevice::Cpu { threads: 1, level: None }, &plan)
    }

    #[test]
    fn limits_decide() {
        let report = check_tiny(CheckPrecision::F32, Some(1e9)).expect("nothing is that far");
        for (_, findings) in report.findings {
            assert_eq!((findings.compared, findings.greedy_tokens), (1, 2));
        }
        let error = check_tiny(CheckPrecision::F32, None).err().expect("the guess is wrong");
        assert!(error.to_string().contains("limit 0.001"), "{error}");
    }

    #[test]
    fn the_default_arithmetic_has_wider_limits() {
        for precision in [CheckPrecision::F16, CheckPrecision::Bf16] {
            let error = check_tiny(precision, None).err().expect("the guess is wrong");
            assert!(error.to_string().contains("limit 0.3"), "{precision:?}: {error}");
        }
    }
}
