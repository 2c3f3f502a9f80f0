//! The users that the trainer does not train on, a batch at a time.

use std::path::PathBuf;

use anyhow::{Result, bail};
use terrace_datasets::read::{Sample, SampleRule, Split, SplitSequences};

use super::eval_data::EvalData;

pub struct EvalSamples {
    path: PathBuf,
    split: SplitSequences,
    rule: SampleRule,
    pub users: usize,
    read: usize,
}

impl EvalSamples {
    pub fn open(data: &EvalData, users_most: usize) -> Result<Self> {
        let (path, rule) = (data.sequences()?.to_owned(), data.rule);
        let split = SplitSequences::open(&path, &data.columns, rule.max_candidates, Split::Eval)?;
        let users = split.len().min(users_most);
        if users == 0 {
            bail!(
                "{}: nobody to evaluate; {} users have more than {} items, {} have not",
                path.display(),
                split.users,
                rule.max_candidates,
                split.too_short
            );
        }
        Ok(EvalSamples { path, split, rule, users, read: 0 })
    }

    /// At most so many users; none at the end.
    pub fn next_batch(&mut self, most: usize) -> Result<Vec<Sample>> {
        let count = most.min(self.users - self.read);
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(sequence) = self.split.next_sequence()? else {
                bail!("{} has become shorter while it was read", self.path.display());
            };
            samples.push(self.rule.sample(sequence));
        }
        self.read += count;
        Ok(samples)
    }
}
