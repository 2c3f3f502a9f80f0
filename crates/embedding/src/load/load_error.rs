//! Why a table was not loaded.

use terrace_tiers::TierError;

use crate::key_kind::KeyError;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{path}: {problem}")]
    File { path: String, problem: String },
    #[error(
        "{folder}: key has {key_bytes} bytes, which are no whole number of keys of 8 bytes; copy \
         the file again"
    )]
    PartOfKey { folder: String, key_bytes: u64 },
    #[error("{folder}: there are no keys in it; name the folder of a trained table")]
    Empty { folder: String },
    #[error(
        "{folder}: emb_vector has {row_bytes} bytes for {keys} keys, {wanted}; copy the files of \
         one checkpoint"
    )]
    Ragged { folder: String, keys: u64, row_bytes: u64, wanted: String },
    #[error(
        "{folder}: {row_bytes} bytes of emb_vector for {keys} keys are rows of {dim} numbers, and \
         a row has at most {most}; copy the files of one checkpoint"
    )]
    Wide { folder: String, keys: u64, row_bytes: u64, dim: u64, most: u64 },
    #[error("{folder}: {file} has {bytes} bytes, and {wanted} belong to {keys} keys")]
    Beside { folder: String, file: &'static str, bytes: u64, wanted: u64, keys: u64 },
    #[error("{folder}: {error}")]
    Key { folder: String, error: KeyError },
    #[error("tables of {found} and {wanted} numbers a row cannot be one table ({folder})")]
    OtherWidth { folder: String, found: usize, wanted: usize },
    #[error(transparent)]
    Level(#[from] TierError),
}
