//! What can go wrong when memory is taken or a file is mapped.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: std::io::Error },
    #[error("cannot map {path} into memory: {source}")]
    Map { path: PathBuf, source: std::io::Error },
    #[error("cannot take {bytes} bytes of host memory ({what}); lower the sizes or free memory")]
    OutOfMemory { bytes: usize, what: &'static str },
}
