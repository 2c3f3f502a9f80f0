//! A model of full size along the tokens that a reference run sampled.
//!
//! Rounding may sample another token where two are nearly as probable, and all after it would
//! differ. So the decoder is given the reference's tokens, and its log-probabilities are compared
//! with the reference's at each of them.

use std::path::Path;

use serde::Deserialize;
use terrace_kernels::Ops;

use super::PagedRun;
use super::case_check::argmax;
use crate::decoder::Decoder;
use crate::error::Error;
use crate::files::read_json;
use crate::layer_group::LayerGroup;

#[derive(Clone, Debug, Deserialize)]
pub struct ReferenceRun {
    pub items: Vec<ReferenceItem>,
}

/// A prompt and how the reference went on.
#[derive(Clone, Debug, Deserialize)]
pub struct ReferenceItem {
    pub prompt_ids: Vec<u32>,
    pub greedy_ids: Vec<u32>,
    /// For each of the first tokens: the best five and their log-probabilities.
    pub top5_first8: Vec<Vec<(u32, f32)>>,
}

/// How a text that is known beforehand comes to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FedAs {
    /// The prompt whole, then generated tokens one by one.
    Served,
    /// All of it as one prompt.
    Prompts,
    /// All of it as generated tokens, one by one.
    Tokens,
}

impl FedAs {
    pub const ALL: [FedAs; 3] = [FedAs::Served, FedAs::Prompts, FedAs::Tokens];
}

/// How far a decoder is from the reference, in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForcedFindings {
    /// Log-probabilities compared.
    pub compared: usize,
    pub mean_difference: f64,
    /// Of the first tokens after the prompts.
    pub first_compared: usize,
    pub first_mean_difference: f64,
    /// Infinite where one is not a number.
    pub largest_difference: f64,
    pub greedy_tokens: usize,
    /// Those that the decoder would have sampled too.
    pub greedy_equal: usize,
}

impl ReferenceRun {
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_json(path)
    }

    /// All prompts side by side.
    pub fn check(
        &self,
        decoder: &Decoder,
        ops: &Ops,
        groups: &[LayerGroup],
        fed: FedAs,
    ) -> Result<ForcedFindings, Error> {
        self.check_ids(decoder.spec().vocab)?;
        let length = |item: &ReferenceItem| item.prompt_ids.len() + item.greedy_ids.len();
        let longest = self.items.iter().map(length).max().unwrap_or(0);
        let prompt_tokens = self.items.iter().map(|item| match fed {
            FedAs::Served => item.prompt_ids.len(),
            FedAs::Prompts => length(item),
            FedAs::Tokens => 0,
        });
        let mut run = PagedRun::new(decoder, ops, groups, longest, prompt_tokens.collect())?;
        let mut texts: Vec<_> = self.items.iter().map(|item| item.start(fed)).collect();
        let chunk = if fed == FedAs::Tokens { 1 } else { usize::MAX };
        let mut findings = ForcedFindings::default();
        while let Some(rows) = run.step(&texts, chunk, |seq| length(&self.items[seq]))? {
            for (seq, position, row) in rows {
                let item = &self.items[seq];
                let Some(made) = (position + 1).checked_sub(item.prompt_ids.len()) else {
                    continue;
                };
                let sampled = item.greedy_ids[made];
                findings.greedy_tokens += 1;
                findings.greedy_equal += usize::from(argmax(&row) == sampled);
                if let Some(best) = item.top5_first8.get(made) {
                    findings.compare(&row, best, made);
                }
                if position + 1 == texts[seq].len() {
                    texts[seq].push(sampled);
                }
            }
        }
        Ok(findings)
    }

    fn check_ids(&self, vocab: usize) -> Result<(), Error> {
        if self.items.iter().any(|item| item.prompt_ids.is_empty()) {
            return Err(Error::Config("a prompt of the reference run is empty".into()));
        }
        let ids = self.items.iter().flat_map(|item| {
            let best = item.top5_first8.iter().flatten().map(|(id, _)| id);
            item.prompt_ids.iter().chain(&item.greedy_ids).chain(best)
        });
        match ids.copied().find(|&id| vocab <= id as usize) {
            Some(id) => Err(Error::TokenUnknown { id, vocab }),
            None => Ok(()),
        }
    }
}

impl ForcedFindings {
    /// Each of the reference's best against the same token here, and against the one that has its
    /// rank here.
    fn compare(&mut self, row: &[f32], best: &[(u32, f32)], made: usize) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|score| f64::from(score - largest).exp()).sum();
        let logprob = |score: f32| f64::from(score - largest) - sum.ln();
        let mut ranked = row.to_vec();
        ranked.sort_by(|a, b| b.total_cmp(a));
        for (&(token, wanted), same_rank) in best.iter().zip(ranked) {
            let off = |score: f32| match (logprob(score) - f64::from(wanted)).abs() {
                off if off.is_nan() => f64::INFINITY,
                off => off,
            };
            let difference = off(row[token as usize]).max(off(same_rank));
            self.largest_difference = self.largest_difference.max(difference);
            add_to_mean(&mut self.mean_difference, &mut self.compared, difference);
            if made == 0 {
                let first = &mut self.first_mean_difference;
                add_to_mean(first, &mut self.first_compared, difference);
            }
        }
    }
}

impl ReferenceItem {
    /// What is known before the first step; the last token is never an input.
    fn start(&self, fed: FedAs) -> Vec<u32> {
        let mut text = self.prompt_ids.clone();
        if let (FedAs::Prompts, Some((_, inputs))) = (fed, self.greedy_ids.split_last()) {
            text.extend(inputs);
        }
        text
    }
}

fn add_to_mean(mean: &mut f64, count: &mut usize, value: f64) {
    let sum = *mean * *count as f64 + value;
    *count += 1;
    *mean = sum / *count as f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores whose log-probabilities are known: of probabilities 0.5, 0.25 and 0.25.
    const ROW: [f32; 3] = [std::f32::consts::LN_2, 0.0, 0.0];

    #[track_caller]
    fn check(row: [f32; 3], best: &[(u32, f32)], mean: f64, largest: f64) {
        let mut findings = ForcedFindings::default();
        findings.compare(&row, best, 0);
        let near = |found: f64, want: f64| found == want || (found - want).abs() < 1e-6;
        assert_eq!(findings.compared, best.len());
        assert!(near(findings.mean_difference, mean), "{findings:?}");
        assert!(near(findings.largest_difference, largest), "{findings:?}");
    }

    #[test]
    fn differences_are_in_nats() {
        let (half, quarter) = (0.5f32.ln(), 0.25f32.ln());
        check(ROW, &[(0, half), (2, quarter)], 0.0, 0.0);
        check(ROW, &[(0, half - 0.5), (1, quarter)], 0.25, 0.5);
    }

    #[test]
    fn a_token_of_another_rank_and_a_broken_row_are_seen() {
        let (half, quarter) = (0.5f32.ln(), 0.25f32.ln());
        let off = f64::from(half - quarter);
        check(ROW, &[(1, quarter), (0, half)], off, off);
        check([f32::NAN; 3], &[(0, half)], f64::INFINITY, f64::INFINITY);
    }
}
