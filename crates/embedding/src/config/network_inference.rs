//! The model of a network's file with an `inference` block, as the first releases had it.
//!
//! The file has one model and no parameter server; what else stands in it is the network's own
//! business.

use std::path::Path;

use super::batch_sizes::BATCH_MAX;
use super::fields::{Fields, Section};
use super::generation::Generation;
use super::gpu_cache::GpuCacheConfig;
use super::model_entry::ModelTables;
use super::model_path::ModelPath;
use super::surroundings::Surroundings;
use super::table_config::TableConfig;
use super::table_list::check_name;

/// `network_file` is the file itself, where it is one.
pub fn read_model(
    top: &mut Fields<'_>,
    around: &Surroundings<'_>,
    network_file: Option<&Path>,
) -> Option<ModelTables> {
    let Section::Given(mut fields) = top.section("inference") else {
        top.missing("inference", "an object");
        return None;
    };
    let name = around.model_name.unwrap_or_default();
    check_name(&fields, "the model's name, which is the file's", name);
    let batch = fields.whole("max_batchsize", 1..=BATCH_MAX).unwrap_or(64);
    let label_dim = fields.whole("label", 1..=BATCH_MAX).unwrap_or(1);
    let model = ModelTables {
        name: name.to_owned(),
        tables: read_tables(&mut fields, around.folder),
        are_table_names_given: false,
        dense_file: ModelPath::read(&mut fields, "dense_model_file", around.folder),
        network_file: network_file.map(|path| ModelPath::Local(path.to_owned())),
        max_batch_size: batch as usize,
        devices: vec![0],
        worker_buffers: 1,
        refresher_buffers: 1,
        max_dense_features: None,
        label_dim: label_dim as usize,
        slots: None,
        gpu_cache: GpuCacheConfig::read(&mut fields, Generation::Older),
    };
    fields.finish();
    Some(model)
}

fn read_tables(fields: &mut Fields<'_>, folder: Option<&Path>) -> Vec<TableConfig> {
    let name = "sparse_model_file";
    let Some(texts) = fields.texts(name) else {
        fields.missing(name, "the folder of a table, or a list of them");
        return Vec::new();
    };
    if texts.is_empty() {
        fields.wrong(&fields.path_of(name), "a list of 0", "at least one folder");
    }
    let sources = texts.iter().map(|(path, text)| ModelPath::parse(text, path, folder, fields));
    let table = |(index, source): (usize, ModelPath)| TableConfig {
        name: format!("sparse_embedding{index}"),
        sparse_folders: vec![source],
        vector_size: None,
        default_value: 0.0,
        max_keys_per_sample: None,
        fused: Vec::new(),
    };
    sources.flatten().enumerate().map(table).collect()
}
