//! What can be wrong with the data a model is tuned with.

use std::ops::Range;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: std::io::Error },
    #[error("{}, line {line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: String },
    #[error("{}, case {case}: {problem}", path.display())]
    Case { path: PathBuf, case: usize, problem: String },
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    #[error("targets {range:?} of {tokens} tokens: they begin after the first one, and rise")]
    Targets { range: Range<usize>, tokens: usize },
    #[error("there is nothing to learn of a sequence of {tokens} tokens: none of them is a target")]
    NothingToLearn { tokens: usize },
    #[error(
        "of {cases} cases, {fitting} have at most {most} tokens (data.max_seq_length); that is too \
         few for training and validation"
    )]
    TooFewCases { cases: usize, fitting: usize, most: usize },
    #[error("{0}")]
    Text(#[from] terrace_model::Error),
}
