//! A parameter server's whole configuration, from HugeCTR's `ps.json` of any release.
//!
//! It is what the file says and nothing else: no folder is looked into, and no server is asked.
//! Invariants: there is at least one model, each with at least one table; names are unique and fit
//! for databases and topics; every number is in its range.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::config_error::{ConfigError, Problem};
use super::db_type::DbTypeLevels;
use super::fields::{Choice, Fields};
use super::generation::Form;
use super::json_text;
use super::model_entry::{EntryContext, ModelTables};
use super::network_inference;
use super::persistent_db::PersistentConfig;
use super::ram_level::RamLevelConfig;
use super::redis_level::RedisLevelConfig;
use super::report::Report;
use super::scalar::found;
use super::surroundings::Surroundings;
use super::update_filters::UpdateFilters;
use super::update_source::KafkaConfig;
use super::volatile_levels::VolatileLevels;
use super::warning::Warning;
use crate::key_kind::KeyKind;
use crate::partition::PartitionRule;
use crate::table_tag::TagStyle;

#[derive(Clone, Debug, PartialEq)]
pub struct PsConfig {
    /// Of all tables.
    pub key_kind: KeyKind,
    pub tag_style: TagStyle,
    pub partition_rule: PartitionRule,
    /// Looked into first.
    pub ram: Option<RamLevelConfig>,
    /// Looked into for what `ram` has not got.
    pub redis: Option<RedisLevelConfig>,
    /// Looked into last; has all rows.
    pub persistent: Option<PersistentConfig>,
    /// Where new rows come from.
    pub update_source: Option<KafkaConfig>,
    pub models: Vec<ModelTables>,
    pub placement: Placement,
}

/// Who decides which rows are in which level; Terrace's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The configuration.
    Configured,
    /// The server, from what is looked up.
    Auto,
}

const PLACEMENTS: [Choice<Placement>; 2] =
    [(&["configured"], Placement::Configured), (&["auto"], Placement::Auto)];

impl PsConfig {
    /// A file; relative paths in it start in its folder, and the model of a network is called as
    /// its file.
    pub fn read(path: &Path, cores: usize) -> Result<(Self, Vec<Warning>), ConfigError> {
        let unread = |source| ConfigError::Read { path: path.to_owned(), source };
        let mut json = Vec::new();
        let file = File::open(path).map_err(unread)?;
        file.take(json_text::BYTES_MAX as u64 + 1).read_to_end(&mut json).map_err(unread)?;
        let around = Surroundings {
            folder: path.parent(),
            model_name: path.file_stem().and_then(|stem| stem.to_str()),
            cores,
        };
        let report = Report::default();
        let value = json_text::parse(&json, &report)?;
        Self::from_report(&value, &around, Some(path), report)
    }

    /// The bytes of a file.
    pub fn from_json(
        json: &[u8],
        around: &Surroundings<'_>,
    ) -> Result<(Self, Vec<Warning>), ConfigError> {
        let report = Report::default();
        let value = json_text::parse(json, &report)?;
        Self::from_report(&value, around, None, report)
    }

    /// The same from another format, once it is a JSON value.
    pub fn from_value(
        value: &Value,
        around: &Surroundings<'_>,
    ) -> Result<(Self, Vec<Warning>), ConfigError> {
        Self::from_report(value, around, None, Report::default())
    }

    fn from_report(
        value: &Value,
        around: &Surroundings<'_>,
        file: Option<&Path>,
        report: Report,
    ) -> Result<(Self, Vec<Warning>), ConfigError> {
        let Some(object) = value.as_object() else {
            let text = format!("found {}, allowed: an object", found(value));
            let problem = Problem { path: "the whole file".to_owned(), text };
            return Err(ConfigError::Wrong { problems: vec![problem], more: 0 });
        };
        let mut top = Fields::new("", object, &report);
        let form = Form::of(&top);
        let config = match form {
            Form::Network => Self::of_network(&mut top, around, file),
            _ => Self::of_ps_json(form, &mut top, around),
        };
        if form != Form::Network {
            top.finish();
        }
        config.note_what_misleads(&report);
        report.finish().map(|warnings| (config, warnings))
    }

    fn of_ps_json(form: Form, top: &mut Fields<'_>, around: &Surroundings<'_>) -> Self {
        let generation = form.generation();
        let key_kind = read_key_kind(top);
        if key_kind.is_none() {
            top.missing("supportlonglong", "true for keys of 64 bits, false for keys of 32");
        }
        let is_fused = top.flag("fuse_embedding_table").unwrap_or(false);
        let (volatile, persistent) = match form {
            Form::DbType => {
                let DbTypeLevels { ram, redis, persistent } = DbTypeLevels::read(top, around);
                (VolatileLevels { ram, redis }, persistent)
            }
            Form::TwoLevels => {
                if top.has("volatile_db") {
                    let text = "found beside cpu_memory_db or distributed_db, which older files \
                                have in its place; keep one of the two forms";
                    top.report().problem("volatile_db", text);
                }
                top.accept(&["volatile_db"]);
                let levels = VolatileLevels::read_two_levels(top, around);
                (levels, PersistentConfig::read(top, generation, around))
            }
            Form::VolatileDb | Form::Network => {
                let levels = VolatileLevels::read_volatile_db(top, around);
                (levels, PersistentConfig::read(top, generation, around))
            }
        };
        PsConfig {
            key_kind: key_kind.unwrap_or(KeyKind::I64),
            tag_style: generation.tag_style(),
            partition_rule: generation.partition_rule(),
            ram: volatile.ram,
            redis: volatile.redis,
            persistent,
            update_source: KafkaConfig::read(top, generation),
            models: ModelTables::read_all(top, EntryContext { form, around, is_fused }),
            placement: top.choice("placement", &PLACEMENTS).unwrap_or(Placement::Configured),
        }
    }

    fn of_network(top: &mut Fields<'_>, around: &Surroundings<'_>, file: Option<&Path>) -> Self {
        let generation = Form::Network.generation();
        let key_kind = read_key_kind(top);
        if key_kind.is_none() {
            let text = "not given, so keys have 64 bits, which hold those of 32 as well";
            top.report().note("supportlonglong", text);
        }
        let model = network_inference::read_model(top, around, file);
        let none = &mut Fields::absent("inference", top.report());
        PsConfig {
            key_kind: key_kind.unwrap_or(KeyKind::I64),
            tag_style: generation.tag_style(),
            partition_rule: generation.partition_rule(),
            ram: Some(RamLevelConfig::read(none, generation, around.cores)),
            redis: None,
            persistent: None,
            update_source: None,
            models: model.into_iter().collect(),
            placement: top.choice("placement", &PLACEMENTS).unwrap_or(Placement::Configured),
        }
    }

    /// Says what is right by itself and does nothing with the rest.
    fn note_what_misleads(&self, report: &Report) {
        let levels: [(&str, Option<&UpdateFilters>); 3] = [
            ("memory", self.ram.as_ref().map(|level| &level.fill.update_filters)),
            ("Redis", self.redis.as_ref().map(|level| &level.fill.update_filters)),
            ("persistent", self.persistent.as_ref().map(|level| &level.update_filters)),
        ];
        if levels.iter().all(|(_, filters)| filters.is_none()) {
            let text = "none is enabled, so every key takes its table's default value";
            report.note("levels", text);
        }
        if self.update_source.is_none() {
            return;
        }
        for (level, filters) in levels {
            let Some(filters) = filters else { continue };
            if !self.models.iter().any(|model| filters.matches(&model.name)) {
                let filters = filters.filters().join(", ");
                let text = format!(
                    "those of the {level} level match no model ({filters}), so it gets no \
                     updates; .+ matches all"
                );
                report.note("update_filters", text);
            }
        }
    }
}

fn read_key_kind(top: &mut Fields<'_>) -> Option<KeyKind> {
    top.flag("supportlonglong").map(|is_long| if is_long { KeyKind::I64 } else { KeyKind::U32 })
}
