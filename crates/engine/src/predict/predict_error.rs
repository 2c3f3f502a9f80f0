//! Why a request is not predicted.

use terrace_embedding::KeyError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    #[error(
        "ROWINDEX has {found} entries; this model takes samples * {slots} + {tables}, for {slots} \
         slots in {tables} tables"
    )]
    OffsetCount { found: usize, slots: usize, tables: usize },
    #[error(
        "DES has {found} numbers; {samples} samples, as ROWINDEX has them, take {wanted}: {dense} \
         each"
    )]
    DenseCount { found: usize, wanted: usize, samples: usize, dense: usize },
    #[error("ROWINDEX of table {table} begins with {found}; each table's begins with 0")]
    FirstOffset { table: usize, found: i32 },
    #[error("ROWINDEX of table {table} falls from {before} to {after} at entry {at}")]
    FallingOffset { table: usize, at: usize, before: i32, after: i32 },
    #[error("CATCOLUMN has {found} keys; ROWINDEX counts {wanted}")]
    KeyCount { found: usize, wanted: u64 },
    #[error("CATCOLUMN: {0}")]
    Key(KeyError),
    #[error("table {table} is asked for {found} keys; {samples} samples may have {most} there")]
    TooManyKeys { table: usize, found: usize, samples: usize, most: usize },
    #[error("the request has {found} samples; the model takes up to {most} at once")]
    TooManySamples { found: usize, most: usize },
    #[error("the request has no samples")]
    NoSamples,
    #[error("{waiting} requests are waiting already; try again later")]
    Busy { waiting: usize },
    #[error("not begun within {timeout_ms} ms; the model is too busy, or the time too short")]
    Late { timeout_ms: u64 },
    #[error("the prediction failed: {0}")]
    Failed(String),
    #[error("the model has stopped")]
    Stopped,
}
