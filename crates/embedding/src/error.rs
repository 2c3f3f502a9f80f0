//! What can be wrong with tables.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
    #[error("table {table:?} has {rows} rows and {keys} keys; each row needs one")]
    Keys { table: String, rows: usize, keys: usize },
    #[error("table {table:?} has the key {key} twice, in rows {first} and {second}")]
    KeyTwice { table: String, key: i64, first: usize, second: usize },
    #[error("the default row of table {table:?} has {found} numbers, its rows have {wanted}")]
    DefaultRow { table: String, found: usize, wanted: usize },
    #[error("tables of {rows} rows in all; rows are counted in 31 bits")]
    TooManyRows { rows: usize },
    #[error("there are no tables")]
    Empty,
    #[error(transparent)]
    Kernels(#[from] terrace_kernels::Error),
    #[error(transparent)]
    Key(#[from] crate::key_kind::KeyError),
}
