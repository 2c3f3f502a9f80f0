//! The tables of a model entry, from the lists that have one value for each table.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::fields::{Fields, joined_path, texts_at};
use super::fused_tables;
use super::model_path::ModelPath;
use super::scalar::{Reals, shown};
use super::surroundings::Surroundings;
use super::table_config::TableConfig;

pub struct TableList {
    pub tables: Vec<TableConfig>,
    /// Whether the file names the tables.
    pub are_names_given: bool,
}

/// Numbers in a row.
pub(crate) const VECTOR_SIZE_MAX: u64 = 65_536;
const KEYS_MAX: u64 = i32::MAX as u64;

/// What `sparse_files` has.
struct SparseFiles<'a> {
    /// Each table's folders.
    folders: Vec<Vec<ModelPath>>,
    /// The tables' names where the field is a map, as it is of tables that are fused already.
    names: Option<Vec<&'a str>>,
}

impl TableList {
    /// Without tables where `sparse_files` is wrong.
    pub fn read(fields: &mut Fields<'_>, around: &Surroundings<'_>, is_fused: bool) -> Self {
        let is_fused = fields.flag("fuse_embedding_table").unwrap_or(true) && is_fused;
        let lists = Lists::read(fields);
        let Some(mut files) = SparseFiles::read(fields, around) else {
            return TableList { tables: Vec::new(), are_names_given: false };
        };
        let are_names_given = lists.names.is_some() || files.names.is_some();
        let names = lists.names(fields, &mut files);
        lists.check_lengths(fields, files.folders.len());
        let defaults = lists.defaults.unwrap_or_default();
        let of = |list: &Option<Vec<u64>>, index: usize| {
            list.as_ref().and_then(|list| list.get(index)).map(|&number| number as usize)
        };
        let configs = names.into_iter().zip(files.folders).enumerate();
        let configs: Vec<TableConfig> = configs
            .map(|(index, (name, sparse_folders))| TableConfig {
                name,
                sparse_folders,
                vector_size: of(&lists.vector_sizes, index),
                default_value: defaults.get(index).copied().unwrap_or_default() as f32,
                max_keys_per_sample: of(&lists.keys, index),
                fused: Vec::new(),
            })
            .collect();
        let configs = match is_fused && files.names.is_none() {
            true => fused_tables::fuse(configs, &defaults, fields),
            false => configs,
        };
        TableList { tables: configs, are_names_given }
    }
}

impl<'a> SparseFiles<'a> {
    fn read(fields: &mut Fields<'a>, around: &Surroundings<'_>) -> Option<Self> {
        let (name, path) = ("sparse_files", fields.path_of("sparse_files"));
        let folders_of = |texts: Vec<(String, &str)>, fields: &Fields<'_>| {
            let parsed =
                texts.iter().map(|(at, text)| ModelPath::parse(text, at, around.folder, fields));
            parsed.collect::<Vec<_>>().into_iter().collect::<Option<Vec<ModelPath>>>()
        };
        let value = fields.value(name);
        let files = match value {
            None => {
                fields.missing(name, "a list of folders, one for each table");
                return None;
            }
            Some(Value::Object(map)) => {
                let tables = map.iter().map(|(table, value)| {
                    let at = joined_path(&path, table);
                    folders_of(texts_at(value, &at, fields.report())?, fields)
                });
                let folders = tables.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?;
                let names = map.keys().map(String::as_str).collect();
                SparseFiles { folders, names: Some(names) }
            }
            Some(_) => {
                let folders = folders_of(fields.texts(name)?, fields)?;
                let folders = folders.into_iter().map(|folder| vec![folder]).collect();
                SparseFiles { folders, names: None }
            }
        };
        if files.folders.is_empty() || files.folders.iter().any(Vec::is_empty) {
            fields.wrong(&path, "none", "at least one folder for each table");
        }
        Some(files)
    }
}

/// The fields with one value for each table.
struct Lists<'a> {
    names: Option<Vec<(String, &'a str)>>,
    vector_sizes: Option<Vec<u64>>,
    keys: Option<Vec<u64>>,
    defaults: Option<Vec<f64>>,
}

impl<'a> Lists<'a> {
    fn read(fields: &mut Fields<'a>) -> Self {
        Lists {
            names: fields.texts("embedding_table_names"),
            vector_sizes: fields.wholes("embedding_vecsize_per_table", 1..=VECTOR_SIZE_MAX),
            keys: fields.wholes("maxnum_catfeature_query_per_table_per_sample", 1..=KEYS_MAX),
            defaults: fields.reals("default_value_for_each_table", Reals::Single),
        }
    }

    /// Lists have one value for each table; only default values may be fewer.
    fn check_lengths(&self, fields: &Fields<'_>, tables: usize) {
        let lengths = [
            ("embedding_vecsize_per_table", self.vector_sizes.as_ref().map(Vec::len)),
            ("maxnum_catfeature_query_per_table_per_sample", self.keys.as_ref().map(Vec::len)),
        ];
        for (name, length) in lengths {
            if let Some(length) = length.filter(|length| *length != tables) {
                wrong_length(fields, name, length, tables);
            }
        }
        if let Some(length) = self.defaults.as_ref().map(Vec::len).filter(|n| *n > tables) {
            wrong_length(fields, "default_value_for_each_table", length, tables);
        }
    }

    /// The tables' names; brings the tables of a map into the order of their names.
    fn names(&self, fields: &Fields<'_>, files: &mut SparseFiles<'_>) -> Vec<String> {
        let tables = files.folders.len();
        let names = match (&self.names, &files.names) {
            (Some(names), None) => {
                if names.len() != tables {
                    wrong_length(fields, "embedding_table_names", names.len(), tables);
                }
                names.clone()
            }
            (Some(names), Some(of_map)) => {
                let in_map: HashMap<&str, usize> =
                    of_map.iter().enumerate().map(|(place, name)| (*name, place)).collect();
                let places = names.iter().map(|(_, name)| in_map.get(name).copied());
                let places: Option<Vec<usize>> = places.collect();
                match places.filter(|places| places.len() == tables) {
                    Some(places) => {
                        files.folders =
                            places.iter().map(|&place| files.folders[place].clone()).collect();
                    }
                    None => {
                        let path = fields.path_of("embedding_table_names");
                        let found = format_args!("{} names", names.len());
                        fields.wrong(&path, found, format_args!("the {tables} of sparse_files"));
                    }
                }
                names.clone()
            }
            (None, Some(of_map)) => {
                let path = fields.path_of("sparse_files");
                of_map.iter().map(|name| (path.clone(), *name)).collect()
            }
            (None, None) => {
                return (0..tables).map(|index| format!("sparse_embedding{index}")).collect();
            }
        };
        check_names(fields, &names);
        names.into_iter().map(|(_, name)| name.to_owned()).collect()
    }
}

/// Table names of one model are right and differ.
fn check_names(fields: &Fields<'_>, names: &[(String, &str)]) {
    let mut seen = HashSet::new();
    for (path, name) in names {
        check_name(fields, path, name);
        if !seen.insert(name) {
            fields.wrong(path, format_args!("{} again", shown(name)), "each name once");
        }
    }
}

/// What models and tables may be called: databases and topics have these names.
pub fn check_name(fields: &Fields<'_>, path: &str, name: &str) {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 120 || !name.chars().all(is_of_name) {
        fields.wrong(path, shown(name), "1 to 120 letters, digits, _ and -");
    }
}

fn wrong_length(fields: &Fields<'_>, name: &str, length: usize, tables: usize) {
    let path = fields.path_of(name);
    let allowed = format_args!("a list of {tables}, as many as sparse_files");
    fields.wrong(&path, format_args!("a list of {length}"), allowed);
}
