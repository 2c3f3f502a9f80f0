//! When a quantised cache rounds the rows that it stores, in the pass that makes decisions.

/// When a quantised cache rounds the rows that it stores, in the pass that makes decisions. A
/// replay rounds nothing: gradients are those of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Each row once, before its own chunk attends to it: as serving does.
    EachRow,
    /// All rows of a layer after each cell: as keys_values does, whose layers share one working
    /// copy.
    EachCell,
}
