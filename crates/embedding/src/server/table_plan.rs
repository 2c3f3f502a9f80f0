//! What is to be served: the tables of a configuration with their files, before anything is loaded.
//!
//! Tables of several models with the same files and settings are one table, with one hot cache on
//! each device; updates of any of the models reach it. In databases it has the first one's name.

use serde::Serialize;
use terrace_tiers::TierError;

use super::start_error::StartError;
use super::stored_versions::StoredVersions;
use crate::config::{GpuCacheConfig, ModelPath, ModelTables, PsConfig, TableConfig, UpdateFilters};
use crate::load::{LoadError, SparseFolder, VersionStamp};
use crate::row_database::RowDatabase;
use crate::table_record::TableRecord;
use crate::table_spec::TableSpec;
use crate::table_tag::TableTag;

pub struct TablePlan {
    pub spec: TableSpec,
    /// What models call it; at least one.
    pub names: Vec<TableName>,
    /// Topics of its updates.
    pub topics: Vec<TableTag>,
    /// `None` where they are not here and a database has the rows.
    pub files: Option<TableFiles>,
    /// Rows of the files, or of the database.
    pub rows: u64,
    pub cache: Option<GpuCacheConfig>,
    /// By the numbers of the configuration; each once.
    pub devices: Vec<u32>,
    /// The most keys that a sample has in it.
    pub keys_per_sample: usize,
    /// What a database calls the version of its files, or the one that was served last.
    pub storage: TableTag,
    paths: Vec<ModelPath>,
}

/// A table as requests know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TableName {
    pub model: String,
    pub table: String,
}

pub struct TableFiles {
    pub folders: Vec<SparseFolder>,
    pub stamp: VersionStamp,
}

/// Opens the files of one path.
pub type OpenFolder<'a> = dyn Fn(&ModelPath, Option<usize>) -> Result<SparseFolder, LoadError> + 'a;

impl TablePlan {
    /// All tables of a configuration, and what is to be said of them.
    pub fn of_all(
        config: &PsConfig,
        database: Option<&dyn RowDatabase>,
        open: &OpenFolder<'_>,
    ) -> Result<(Vec<Self>, Vec<String>), StartError> {
        let (mut plans, mut warnings) = (Vec::<Self>::new(), Vec::new());
        for model in &config.models {
            for table in &model.tables {
                let tag = config.tag_style.table_tag(&model.name, &table.name);
                match plans.iter_mut().find(|plan| plan.is_shared(model, table)) {
                    Some(plan) => plan.add(model, table, tag),
                    None => {
                        let known = Known::find(config, &tag, table, database, open)?;
                        warnings.extend(known.warning(&tag));
                        plans.push(known.plan(config, model, table, tag)?);
                    }
                }
            }
        }
        Ok((plans, warnings))
    }

    /// Bytes of all its rows.
    pub fn row_bytes(&self) -> u64 {
        self.rows.saturating_mul(self.spec.row_bytes() as u64)
    }

    /// The table as the database knows it.
    pub fn stored_spec(&self) -> TableSpec {
        TableSpec { tag: self.storage.clone(), ..self.spec.clone() }
    }

    /// Whether a level with these filters takes updates of it.
    pub fn is_for(&self, filters: &UpdateFilters) -> bool {
        self.names.iter().any(|name| filters.matches(&name.model))
    }

    /// Where its files are.
    pub fn paths(&self) -> &[ModelPath] {
        &self.paths
    }

    fn is_shared(&self, model: &ModelTables, table: &TableConfig) -> bool {
        self.paths == table.sparse_folders
            && self.cache == model.gpu_cache
            && self.spec.default_value.to_bits() == table.default_value.to_bits()
            && table.vector_size.is_none_or(|dim| dim == self.spec.dim)
    }

    fn add(&mut self, model: &ModelTables, table: &TableConfig, tag: TableTag) {
        self.names.extend(names(model, table));
        self.topics.push(tag);
        let new = model.devices.iter().filter(|device| !self.devices.contains(device));
        self.devices.extend(new.copied().collect::<Vec<u32>>());
        self.keys_per_sample = self.keys_per_sample.max(table.max_keys_per_sample.unwrap_or(1));
    }
}

/// What is known of a table from its files and from the database.
struct Known {
    files: Result<TableFiles, LoadError>,
    record: Option<TableRecord>,
    storage: TableTag,
    needs_files: bool,
}

impl Known {
    fn find(
        config: &PsConfig,
        tag: &TableTag,
        table: &TableConfig,
        database: Option<&dyn RowDatabase>,
        open: &OpenFolder<'_>,
    ) -> Result<Self, StartError> {
        let folders = table.sparse_folders.iter().map(|path| open(path, table.vector_size));
        let files = folders.collect::<Result<Vec<_>, _>>().map(|folders| {
            let stamp = VersionStamp::of(&folders);
            TableFiles { folders, stamp }
        });
        let stored = database.map(|database| StoredVersions::find(database, tag)).transpose();
        let stored = stored
            .map_err(|error: TierError| StartError::Level { table: tag.to_string(), error })?;
        let stamp = files.as_ref().ok().map(|files| files.stamp.text.as_str());
        let version = stored.as_ref().and_then(|stored| stored.served_with(stamp));
        let storage = tag.storage(version.map_or(0, |version| version.slot));
        let record = version.map(|version| version.record.clone());
        Ok(Known { files, record, storage, needs_files: needs_files(config) })
    }

    /// Whether a database has all rows.
    fn is_loaded(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.is_loaded)
    }

    fn warning(&self, tag: &TableTag) -> Option<String> {
        let error = self.files.as_ref().err().filter(|_| self.needs_files && self.is_loaded())?;
        Some(format!(
            "the files of {tag} cannot be read, so what the database has is served: {error}"
        ))
    }

    fn plan(
        self,
        config: &PsConfig,
        model: &ModelTables,
        table: &TableConfig,
        tag: TableTag,
    ) -> Result<TablePlan, StartError> {
        let is_loaded = self.is_loaded();
        let files = match self.files {
            Ok(files) => Some(files),
            Err(error @ (LoadError::File { .. } | LoadError::Empty { .. }))
                if self.needs_files && !is_loaded =>
            {
                return Err(StartError::NoFiles { table: tag.to_string(), error });
            }
            Err(LoadError::File { .. } | LoadError::Empty { .. }) => None,
            Err(error) => return Err(StartError::Load { table: tag.to_string(), error }),
        };
        let of_files = files.as_ref().and_then(|files| files.folders.first());
        let width = of_files.map(SparseFolder::dim).or(table.vector_size);
        let dim = width.or(self.record.as_ref().map(|record| record.dim));
        let dim = dim.ok_or_else(|| StartError::NoWidth { table: tag.to_string() })?;
        let of_files = files.as_ref().map(|it| it.folders.iter().map(SparseFolder::count).sum());
        let rows = of_files.or(self.record.map(|record| record.loaded_rows)).unwrap_or(0);
        let (key_kind, default_value) = (config.key_kind, table.default_value);
        Ok(TablePlan {
            spec: TableSpec { tag: tag.clone(), key_kind, dim, default_value },
            names: names(model, table).collect(),
            topics: vec![tag],
            files,
            rows,
            cache: model.gpu_cache.clone(),
            devices: model.devices.clone(),
            keys_per_sample: table.max_keys_per_sample.unwrap_or(1),
            storage: self.storage,
            paths: table.sparse_folders.clone(),
        })
    }
}

/// Its own, and those of the tables that are fused in it.
fn names(model: &ModelTables, table: &TableConfig) -> impl Iterator<Item = TableName> {
    let fused = table.fused.iter().map(|fused| &fused.name);
    let all = std::iter::once(&table.name).chain(fused);
    all.map(|table| TableName { model: model.name.clone(), table: table.clone() })
}

/// Whether a level is filled from files at the start.
fn needs_files(config: &PsConfig) -> bool {
    let ram = config.ram.as_ref().is_some_and(|ram| ram.fill.initialize_after_startup);
    let redis = config.redis.as_ref().is_some_and(|redis| redis.fill.initialize_after_startup);
    let persistent = config.persistent.as_ref();
    match persistent {
        Some(persistent) => persistent.initialize_after_startup && !persistent.read_only,
        None => ram || redis,
    }
}
