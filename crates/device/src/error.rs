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
    #[error(
        "cannot take {bytes} bytes of device memory ({what}): {free} of {total} are free; lower \
         the sizes, choose a smaller model, or free memory on the GPU"
    )]
    OutOfDeviceMemory { bytes: usize, what: &'static str, free: usize, total: usize },
    #[error(
        "cannot take {bytes} bytes of device memory ({what}): {taken} of this engine's share of \
         {share} are taken; raise --gpu-memory-fraction, lower the sizes, or choose a smaller model"
    )]
    OverDeviceShare { bytes: usize, what: &'static str, share: usize, taken: usize },
    #[error(
        "cannot take {bytes} bytes of device memory ({what}): {free} of {arena} reserved for what \
         is loaded later are free; start with a larger --gpu-arena"
    )]
    ArenaExhausted { bytes: usize, what: &'static str, free: usize, arena: usize },
    #[error("cannot take {bytes} bytes of pinned host memory: they are taken at start only")]
    PinnedAfterStart { bytes: usize },
    #[error("{what}: {message}")]
    Cuda { what: String, message: String },
    #[error("cannot use {threads} worker threads; choose 1 to {most}")]
    ThreadCount { threads: usize, most: usize },
    #[error("cannot start worker thread {worker}: {source}")]
    Spawn { worker: usize, source: std::io::Error },
}
