//! Tables of one model whose rows have the same size, kept as one.
//!
//! As the last release does it: each size gets a table `fused_embedding<n>`, smaller sizes first,
//! also where only one table has the size. Their keys must not overlap, which shows when the files
//! are read.

use std::collections::BTreeMap;

use super::fields::Fields;
use super::table_config::{FusedTable, TableConfig};

/// `defaults` are the values that the file has; where they are fewer than the tables, they are the
/// fused tables'.
pub fn fuse(tables: Vec<TableConfig>, defaults: &[f64], fields: &Fields<'_>) -> Vec<TableConfig> {
    let mut sizes: BTreeMap<usize, Vec<(usize, &TableConfig)>> = BTreeMap::new();
    for (position, table) in tables.iter().enumerate() {
        let Some(size) = table.vector_size else {
            let text = "not given, so tables are not fused";
            fields.report().note(fields.path_of("embedding_vecsize_per_table"), text);
            return tables;
        };
        sizes.entry(size).or_default().push((position, table));
    }
    let is_per_table = defaults.len() == tables.len();
    let fused = sizes.into_values().enumerate().map(|(index, same_size)| {
        let mut fused = fuse_same_size(index, &same_size, fields);
        if !is_per_table {
            fused.default_value = defaults.get(index).copied().unwrap_or_default() as f32;
        } else if same_size.iter().any(|(_, table)| table.default_value != fused.default_value) {
            let text = format!(
                "the tables of {} have different values; {} is used for all of them",
                fused.name, fused.default_value
            );
            fields.report().note(fields.path_of("default_value_for_each_table"), text);
        }
        fused
    });
    fused.collect()
}

/// The tables of one size; the last one's default value counts.
fn fuse_same_size(
    index: usize,
    tables: &[(usize, &TableConfig)],
    fields: &Fields<'_>,
) -> TableConfig {
    let keys: Option<Vec<usize>> =
        tables.iter().map(|(_, table)| table.max_keys_per_sample).collect();
    let keys = keys.map(|keys| keys.into_iter().sum());
    if keys.is_some_and(|keys: usize| i32::try_from(keys).is_err()) {
        let path = fields.path_of("maxnum_catfeature_query_per_table_per_sample");
        fields.wrong(&path, "a sum above 2147483647", "less for tables that are fused");
    }
    let folders = tables.iter().flat_map(|(_, table)| table.sparse_folders.iter().cloned());
    let of_request = |(position, table): &(usize, &TableConfig)| FusedTable {
        position: *position,
        name: table.name.clone(),
    };
    TableConfig {
        name: format!("fused_embedding{index}"),
        sparse_folders: folders.collect(),
        vector_size: tables.first().and_then(|(_, table)| table.vector_size),
        default_value: tables.last().map_or(0.0, |(_, table)| table.default_value),
        max_keys_per_sample: keys,
        fused: tables.iter().map(of_request).collect(),
    }
}
