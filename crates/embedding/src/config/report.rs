//! What is found wrong or odd while a configuration is read.
//!
//! Reading goes on after an error, with a default in place of the value, so that a user mends a
//! file in one go. Invariant: a configuration in which anything was wrong never leaves.

use std::cell::RefCell;

use super::config_error::{ConfigError, Problem};
use super::warning::Warning;

const PROBLEMS_SHOWN: usize = 10;
const WARNINGS_SHOWN: usize = 100;

#[derive(Default)]
pub struct Report {
    findings: RefCell<Findings>,
}

#[derive(Default)]
struct Findings {
    problems: Vec<Problem>,
    more_problems: usize,
    warnings: Vec<Warning>,
    more_warnings: usize,
    no_effect: Vec<String>,
}

impl Report {
    pub fn problem(&self, path: impl Into<String>, text: impl Into<String>) {
        let mut findings = self.findings.borrow_mut();
        match findings.problems.len() < PROBLEMS_SHOWN {
            true => findings.problems.push(Problem { path: path.into(), text: text.into() }),
            false => findings.more_problems += 1,
        }
    }

    /// The warning is only made where it is shown.
    pub fn warn(&self, warning: impl FnOnce() -> Warning) {
        let mut findings = self.findings.borrow_mut();
        match findings.warnings.len() < WARNINGS_SHOWN {
            true => findings.warnings.push(warning()),
            false => findings.more_warnings += 1,
        }
    }

    pub fn note(&self, path: impl Into<String>, text: impl Into<String>) {
        self.warn(|| Warning::Note { path: path.into(), text: text.into() });
    }

    /// Names a key that changes nothing; once for all entries of a list.
    pub fn no_effect(&self, path: &str) {
        let path = without_indices(path);
        let mut findings = self.findings.borrow_mut();
        if !findings.no_effect.contains(&path) {
            findings.no_effect.push(path);
        }
    }

    /// The warnings, if nothing is wrong.
    pub fn finish(self) -> Result<Vec<Warning>, ConfigError> {
        let Findings { problems, more_problems, mut warnings, more_warnings, no_effect } =
            self.findings.into_inner();
        if !problems.is_empty() {
            return Err(ConfigError::Wrong { problems, more: more_problems });
        }
        if !no_effect.is_empty() {
            warnings.push(Warning::NoEffect { paths: no_effect });
        }
        if more_warnings > 0 {
            warnings.push(Warning::More { count: more_warnings });
        }
        Ok(warnings)
    }
}

/// `models[3].label_dim` as `models[].label_dim`.
fn without_indices(path: &str) -> String {
    let parts = path.split('[').enumerate().map(|(index, part)| match index {
        0 => part.to_owned(),
        _ => format!("[{}", part.trim_start_matches(|c: char| c.is_ascii_digit())),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_problems_are_shown_and_the_others_counted() {
        let report = Report::default();
        (0..12).for_each(|index| report.problem(format!("a[{index}]"), "wrong"));
        let text = report.finish().unwrap_err().to_string();
        assert_eq!(text.lines().count(), 11);
        assert!(text.starts_with("a[0]: wrong\na[1]: wrong\n"), "{text}");
        assert!(text.ends_with("\na[9]: wrong\nand 2 errors more"), "{text}");
    }

    #[test]
    fn keys_without_effect_are_one_warning() {
        let report = Report::default();
        report.no_effect("models[0].thread_pool_size");
        report.no_effect("models[13].thread_pool_size");
        report.no_effect("models[13].fp8_quant");
        report.no_effect("volatile_db.algorithm");
        let warnings = report.finish().unwrap();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert_eq!(
            warning.to_string(),
            "models[].thread_pool_size, models[].fp8_quant, volatile_db.algorithm: accepted, has \
             no effect here"
        );
    }
}
