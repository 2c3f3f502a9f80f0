//! What a search finds.

/// A row of the item table, counted from its first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredRow {
    pub row: i32,
    pub score: f32,
}
