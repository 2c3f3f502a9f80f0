//! One table of a model.

use super::model_path::ModelPath;

#[derive(Clone, Debug, PartialEq)]
pub struct TableConfig {
    /// Of the table in every database.
    pub name: String,
    /// Folders with its keys and rows; several only for a fused table.
    pub sparse_folders: Vec<ModelPath>,
    /// Numbers in a row; the files say it where it is not given.
    pub vector_size: Option<usize>,
    /// What a row that no level has is filled with.
    pub default_value: f32,
    /// The most keys that one sample looks up.
    pub max_keys_per_sample: Option<usize>,
    /// The tables of requests that are looked up here, one for each folder; empty unless the
    /// server has fused them.
    pub fused: Vec<FusedTable>,
}

/// A table as requests know it, whose rows are in a table with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusedTable {
    /// Its place among the model's tables.
    pub position: usize,
    pub name: String,
}
