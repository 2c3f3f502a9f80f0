//! How far a load has come.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadProgress {
    /// Bytes of the files that were compared with the version that is there, of all.
    Checked { bytes: u64, of: u64 },
    /// Rows that are in the database, of all.
    Loaded { rows: u64, of: u64 },
}
