//! What can be wrong with a file of golden data.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum GoldenFileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is no golden data: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
}
