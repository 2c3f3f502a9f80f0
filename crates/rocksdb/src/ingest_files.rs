//! How finished files come into a database.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngestFiles {
    /// They stay where they are.
    Copy,
    /// They are linked into the database's folder and gone from their own; on one file system no
    /// bytes are copied.
    Move,
}
