//! A golden case through pages of several sizes, in whole and chunked prompts, alone and together.

use std::fmt;

use terrace_device::DType;
use terrace_golden::LargestDifference;
use terrace_kernels::Ops;

use super::{GoldenModel, PagedRun};
use crate::decoder::Decoder;
use crate::error::Error;
use crate::layer_group::LayerGroup;

/// How a prompt reaches the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feeding {
    pub page_tokens: usize,
    /// Most tokens of one sequence in one step.
    pub chunk: usize,
}

impl Feeding {
    /// Pages of 1, 16 and 64 tokens, prompts whole and in chunks.
    pub fn all() -> Vec<Feeding> {
        let feedings = [1, 16, 64]
            .map(|page_tokens| [usize::MAX, 7].map(|chunk| Feeding { page_tokens, chunk }));
        feedings.concat()
    }

    /// One that crosses pages and chunks.
    pub const ONE: Feeding = Feeding { page_tokens: 16, chunk: 7 };
}

impl fmt::Display for Feeding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pages of {}, ", self.page_tokens)?;
        match self.chunk {
            usize::MAX => write!(f, "whole prompts"),
            chunk => write!(f, "chunks of {chunk}"),
        }
    }
}

/// How far a case is from what was expected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseFindings {
    /// Of all logits of all positions.
    pub largest: LargestDifference,
    /// Tokens of the greedy continuations, over all runs.
    pub greedy_tokens: usize,
    /// Those that came out otherwise.
    pub greedy_wrong: usize,
}

impl CaseFindings {
    /// What the golden data's README grants f32 engines; logits reach about 12.
    pub const TOLERANCE: f32 = 2e-3;

    pub fn passed(&self) -> bool {
        self.largest.value <= Self::TOLERANCE && self.greedy_wrong == 0
    }

    /// The worse of both.
    pub fn add(&mut self, other: CaseFindings) {
        self.largest.join(other.largest);
        self.greedy_tokens += other.greedy_tokens;
        self.greedy_wrong += other.greedy_wrong;
    }

    fn compare(&mut self, row: &[f32], expected: &[f32], location: impl Fn() -> String) {
        for (found, wanted) in row.iter().zip(expected) {
            self.largest.note((found - wanted).abs(), &location);
        }
    }
}

/// Runs every prompt in f32 to the end of its continuation, alone and then beside the others. The
/// ops may depend on how pages are laid out in each group of layers.
pub fn check_case(
    case: &GoldenModel,
    feedings: &[Feeding],
    ops_for: impl Fn(&[LayerGroup]) -> Result<Ops, terrace_kernels::Error>,
) -> Result<CaseFindings, Error> {
    let mut findings = CaseFindings::default();
    for &feeding in feedings {
        let groups = case.spec.kv_groups(feeding.page_tokens, DType::F32);
        let ops = ops_for(&groups)?;
        let decoder = Decoder::place(case.spec.clone(), case.tensors.clone(), &ops, || {})?;
        let run = FedRun { case, decoder: &decoder, ops: &ops, groups: &groups, feeding };
        for prompt in 0..case.prompts.len() {
            run.check(&[prompt], &mut findings)?;
        }
        let all: Vec<usize> = (0..case.prompts.len()).collect();
        run.check(&all, &mut findings)?;
    }
    Ok(findings)
}

struct FedRun<'a> {
    case: &'a GoldenModel,
    decoder: &'a Decoder,
    ops: &'a Ops,
    groups: &'a [LayerGroup],
    feeding: Feeding,
}

impl FedRun<'_> {
    /// The given prompts side by side. A continuation goes on with the expected token, whatever
    /// came out.
    fn check(&self, prompts: &[usize], findings: &mut CaseFindings) -> Result<(), Error> {
        let golden = |seq: usize| &self.case.prompts[prompts[seq]];
        let longest = (0..prompts.len()).map(|seq| golden(seq).tokens()).max().unwrap_or(0);
        let prompt_tokens = (0..prompts.len()).map(|seq| golden(seq).input_ids.len()).collect();
        let mut run = PagedRun::new(self.decoder, self.ops, self.groups, longest, prompt_tokens)?;
        let mut texts: Vec<Vec<u32>> =
            (0..prompts.len()).map(|seq| golden(seq).input_ids.clone()).collect();
        while let Some(rows) = run.step(&texts, self.feeding.chunk, |seq| golden(seq).tokens())? {
            for (seq, position, row) in rows {
                findings.compare(&row, golden(seq).expected(position), || {
                    let (prompt, beside) = (prompts[seq], prompts.len() - 1);
                    format!(
                        "prompt {prompt} position {position}, {}, {beside} others",
                        self.feeding
                    )
                });
                if position + 1 == texts[seq].len() {
                    let made = texts[seq].len() - golden(seq).input_ids.len();
                    let wanted = golden(seq).greedy_ids[made];
                    findings.greedy_tokens += 1;
                    findings.greedy_wrong += usize::from(argmax(&row) != wanted);
                    texts[seq].push(wanted);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn argmax(row: &[f32]) -> u32 {
    let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(token, _)| token as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_infinitely_wrong() {
        let mut findings = CaseFindings::default();
        findings.compare(&[1.0, 2.0], &[1.0, 2.001], || "near".into());
        assert!(findings.passed() && findings.largest.location == "near", "{findings:?}");
        findings.compare(&[1.0, f32::NAN], &[1.0, 2.0], || "broken".into());
        assert!(!findings.passed() && findings.largest.location == "broken", "{findings:?}");
    }

    #[test]
    fn findings_of_runs_add_up() {
        let findings = |value: f32, greedy_wrong: usize| CaseFindings {
            largest: LargestDifference { value, ..Default::default() },
            greedy_tokens: 5,
            greedy_wrong,
        };
        let (mut all, other) = (findings(1e-3, 0), findings(1e-4, 1));
        assert!(all.passed());
        all.add(other);
        assert_eq!((all.largest.value, all.greedy_tokens, all.passed()), (1e-3, 10, false));
    }
}
