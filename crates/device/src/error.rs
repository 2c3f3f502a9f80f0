//! What can go wrong when memory is taken, a file is mapped or threads are started.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: std::io::Error },
    #[error("cannot map {path} into memory: {source}")]
    Map { path: PathBuf, source: std::io::Error },
    #[error("cannot take {bytes} bytes of host memory ({what}); lower the sizes or free memory")]
    OutOfMemory { bytes: usize, what: &'static str },
    #[error("cannot use {threads} worker threads; choose 1 to {most}")]
    ThreadCount { threads: usize, most: usize },
    #[error("cannot start worker thread {worker}: {source}")]
    Spawn { worker: usize, source: std::io::Error },
}
