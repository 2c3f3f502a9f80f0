//! How often a model finds a number in a long text that it reads through a cache.

use anyhow::Result;
use serde::Serialize;
use terrace_engine::text::{GenerationConfig, Prompt, TextRequest, TextStream};
use terrace_model::AddSpecial;

use super::cache_case::{CacheCase, CaseLabel, Share};
use super::needle_prompts::{NeedlePrompt, NeedlePrompts};
use super::run::Requests;

/// Long enough for a sentence with the number in it.
const OUTPUT_TOKENS: usize = 24;
/// A model that finds less than this with everything kept cannot tell caches apart.
pub const GOOD_SHARE: f64 = 0.8;
/// Below this no shorter length is tried.
const SHORTEST: usize = 128;

#[derive(Clone, Debug, Serialize)]
pub struct NeedleRow {
    #[serde(flatten)]
    pub case: CaseLabel,
    /// Outputs that contain the number, as a share of all.
    pub found: f64,
    pub by_length: Vec<FoundAt<usize>>,
    pub by_depth: Vec<FoundAt<Share>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FoundAt<T> {
    pub at: T,
    pub found: f64,
}

/// Questions on their way through a cache.
pub struct SubmittedNeedles {
    case: CacheCase,
    submitted: Vec<(NeedlePrompt, TextStream)>,
}

impl SubmittedNeedles {
    pub fn submit(
        requests: &Requests<'_>,
        case: &CacheCase,
        prompts: &[NeedlePrompt],
    ) -> Result<Self> {
        let ask = |prompt: &NeedlePrompt| {
            let generation = GenerationConfig {
                do_sample: Some(false),
                max_new_tokens: Some(OUTPUT_TOKENS),
                ..GenerationConfig::default()
            };
            let tokens = requests.tokenizer().encode(&prompt.chat, AddSpecial::No)?;
            let request = TextRequest {
                kv_cache: case.requested(tokens.len()),
                ..TextRequest::new(Prompt::Tokens(tokens), generation)
            };
            Ok((prompt.clone(), requests.submit(request)?))
        };
        let submitted = prompts.iter().map(ask).collect::<Result<_>>()?;
        Ok(SubmittedNeedles { case: case.clone(), submitted })
    }

    pub fn row(self, requests: &Requests<'_>) -> Result<NeedleRow> {
        let mut found = Vec::new();
        for (prompt, stream) in self.submitted {
            let output = requests.wait(stream)?.text;
            found.push((prompt.length, prompt.depth, output.contains(&prompt.number)));
        }
        Ok(NeedleRow {
            case: self.case.label(),
            found: share_of(&found, |_| true),
            by_length: shares_by(&found, |(length, _, _)| *length),
            by_depth: shares_by(&found, |(_, depth, _)| *depth),
        })
    }
}

/// The longest length at which a dense cache finds enough: of those in `dense`, or else of halves
/// of the shortest. `None` where there is none.
pub fn longest_good(
    requests: &Requests<'_>,
    dense: &NeedleRow,
    prompts: &mut NeedlePrompts<'_>,
    depths: &[Share],
    count: usize,
) -> Result<Option<FoundAt<usize>>> {
    let is_good = |at: &&FoundAt<usize>| GOOD_SHARE <= at.found;
    if let Some(good) = dense.by_length.iter().filter(is_good).max_by_key(|at| at.at) {
        return Ok(Some(*good));
    }
    let shortest = dense.by_length.iter().map(|at| at.at).min().unwrap_or(0);
    let mut length = shortest / 2;
    while SHORTEST <= length {
        let made = prompts.make(length, depths, count)?;
        let row = SubmittedNeedles::submit(requests, &CacheCase::dense(), &made)?.row(requests)?;
        if GOOD_SHARE <= row.found {
            return Ok(Some(FoundAt { at: length, found: row.found }));
        }
        length /= 2;
    }
    Ok(None)
}

type Found = (usize, Share, bool);

fn share_of(found: &[Found], counts: impl Fn(&Found) -> bool) -> f64 {
    let counted: Vec<&Found> = found.iter().filter(|one| counts(one)).collect();
    counted.iter().filter(|one| one.2).count() as f64 / counted.len().max(1) as f64
}

/// In the order in which values first come.
fn shares_by<T: PartialEq + Copy>(found: &[Found], value: impl Fn(&Found) -> T) -> Vec<FoundAt<T>> {
    let mut values: Vec<T> = Vec::new();
    for one in found {
        if !values.contains(&value(one)) {
            values.push(value(one));
        }
    }
    let share = |at: T| FoundAt { at, found: share_of(found, |one| value(one) == at) };
    values.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_by_length_and_by_depth() {
        let (early, late) = (Share(0.1), Share(0.9));
        let found =
            [(512, early, true), (512, late, true), (1024, early, false), (1024, late, true)];
        assert_eq!(share_of(&found, |_| true), 0.75);
        let by_length = shares_by(&found, |(length, _, _)| *length);
        let want = [FoundAt { at: 512, found: 1.0 }, FoundAt { at: 1024, found: 0.5 }];
        assert_eq!(by_length, want);
        let by_depth = shares_by(&found, |(_, depth, _)| *depth);
        let want = [FoundAt { at: early, found: 0.5 }, FoundAt { at: late, found: 1.0 }];
        assert_eq!(by_depth, want);
    }
}
