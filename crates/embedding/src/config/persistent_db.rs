//! The level that has all rows of all tables, on a local disk.

use std::path::{Path, PathBuf};

use super::batch_sizes::BatchSizes;
use super::fields::{Choice, Fields, Section};
use super::generation::Generation;
use super::model_path::local_path;
use super::scalar::shown;
use super::surroundings::Surroundings;
use super::update_filters::UpdateFilters;

#[derive(Clone, Debug, PartialEq)]
pub struct PersistentConfig {
    pub kind: PersistentKind,
    /// The database's folder.
    pub path: PathBuf,
    pub num_threads: u32,
    /// Nothing is written, neither at the start nor by updates.
    pub read_only: bool,
    pub batches: BatchSizes,
    /// Whether the tables' files are read into the database at the start.
    pub initialize_after_startup: bool,
    pub update_filters: UpdateFilters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistentKind {
    /// A database as HugeCTR's, which it can go on with.
    RocksDb,
    /// Terrace's own.
    Embedded,
}

/// The document that users started from has it misspelt.
const NAMES: [&str; 2] = ["persistent_db", "peristent_db"];
const KINDS: [Choice<Option<PersistentKind>>; 3] = [
    (&["disabled", "disable", "none"], None),
    (&["rocks_db", "rocksdb", "rocks"], Some(PersistentKind::RocksDb)),
    (&["embedded", "fjall"], Some(PersistentKind::Embedded)),
];
const FIELDS: [&str; 8] = [
    "path",
    "num_threads",
    "read_only",
    "max_batch_size",
    "max_get_batch_size",
    "max_set_batch_size",
    "initialize_after_startup",
    "update_filters",
];
const DEFAULT_PATH: &str = "/tmp/rocksdb";

impl PersistentConfig {
    pub(super) fn read(
        top: &mut Fields<'_>,
        generation: Generation,
        around: &Surroundings<'_>,
    ) -> Option<Self> {
        let [right, misspelt] = NAMES;
        if top.has(right) && top.has(misspelt) {
            let text = format!("found beside {right}, which it is a misspelling of; keep one");
            top.report().problem(misspelt, text);
        }
        let name = if top.has(misspelt) { misspelt } else { right };
        top.accept(&NAMES);
        let Section::Given(mut fields) = top.section(name) else { return None };
        let kind = fields.choice("type", &KINDS).flatten();
        let config = kind.map(|kind| {
            let path = read_path(&mut fields, kind, around.folder);
            Self::of_kind(kind, path, &mut fields, generation)
        });
        fields.accept(&FIELDS);
        fields.finish();
        config
    }

    /// With `fields` for all but its path.
    pub(super) fn of_kind(
        kind: PersistentKind,
        path: PathBuf,
        fields: &mut Fields<'_>,
        generation: Generation,
    ) -> Self {
        PersistentConfig {
            kind,
            path,
            num_threads: fields.whole("num_threads", 1..=4096).unwrap_or(16) as u32,
            read_only: fields.flag("read_only").unwrap_or(false),
            batches: BatchSizes::read(fields, generation),
            initialize_after_startup: fields.flag("initialize_after_startup").unwrap_or(true),
            update_filters: UpdateFilters::read(fields),
        }
    }
}

fn read_path(fields: &mut Fields<'_>, kind: PersistentKind, folder: Option<&Path>) -> PathBuf {
    match kind {
        PersistentKind::RocksDb => rocks_db_path(fields, "path", folder),
        PersistentKind::Embedded => {
            let path = folder_path(fields, "path", folder);
            path.unwrap_or_else(|| {
                fields.missing("path", "the database's folder");
                PathBuf::new()
            })
        }
    }
}

/// HugeCTR's default is a folder that not every machine keeps from one start to the next.
pub fn rocks_db_path(
    fields: &mut Fields<'_>,
    name: &'static str,
    folder: Option<&Path>,
) -> PathBuf {
    folder_path(fields, name, folder).unwrap_or_else(|| {
        let text = format!("not given, so rows are kept in {DEFAULT_PATH}, which may not last");
        fields.report().note(fields.path_of(name), text);
        PathBuf::from(DEFAULT_PATH)
    })
}

fn folder_path(
    fields: &mut Fields<'_>,
    name: &'static str,
    folder: Option<&Path>,
) -> Option<PathBuf> {
    let text = fields.text(name)?;
    let path = local_path(text, folder);
    if path.is_none() {
        fields.wrong(&fields.path_of(name), shown(text), "a folder");
    }
    path
}
