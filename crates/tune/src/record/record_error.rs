//! What can go wrong with the records of a run.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: std::io::Error },
    #[error("{}, line {line}: {problem}", path.display())]
    Line { path: PathBuf, line: u64, problem: String },
    #[error(
        "{} is there already, from an earlier run: resume that run, or choose another folder",
        path.display()
    )]
    Exists { path: PathBuf },
    #[error("there is no {}: choose the folder that a run wrote to", path.display())]
    NoRun { path: PathBuf },
}
