//! What every level must know of a table.

use crate::key_kind::KeyKind;
use crate::table_tag::TableTag;

#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    pub tag: TableTag,
    pub key_kind: KeyKind,
    /// Numbers of a row.
    pub dim: usize,
    /// Every number of the row of a key that no level has.
    pub default_value: f32,
}

impl TableSpec {
    pub fn row_bytes(&self) -> usize {
        self.dim * size_of::<f32>()
    }
}
