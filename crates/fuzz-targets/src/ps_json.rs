//! The configuration of a parameter server, of any release.

use std::collections::HashSet;
use std::path::Path;

use terrace_embedding::{ConfigError, PsConfig, Surroundings, Warning};

/// Lines of an error, and warnings: so many, and one that counts the others.
const PROBLEMS_MOST: usize = 10 + 1;
const WARNINGS_MOST: usize = 100 + 2;
/// An input that is read twice; it takes as long again.
const SMALL_BYTES: usize = 4096;

pub fn run(input: &[u8]) -> bool {
    let around =
        Surroundings { folder: Some(Path::new("/models")), model_name: Some("network"), cores: 4 };
    let Some(config) = read(input, &around) else { return false };
    if input.len() <= SMALL_BYTES {
        assert_same_value(input, &around, &config);
    }
    true
}

fn read(input: &[u8], around: &Surroundings<'_>) -> Option<PsConfig> {
    match PsConfig::from_json(input, around) {
        Ok((config, warnings)) => {
            assert!(warnings.len() <= WARNINGS_MOST, "{} warnings", warnings.len());
            assert!(warnings.iter().map(Warning::to_string).all(|text| !text.is_empty()));
            check(&config);
            Some(config)
        }
        Err(error) => {
            if let ConfigError::Wrong { problems, .. } = &error {
                assert!(!problems.is_empty());
            }
            let text = error.to_string();
            assert!((1..=PROBLEMS_MOST).contains(&text.lines().count()), "{text}");
            None
        }
    }
}

/// The same from a JSON value, which another format may have given.
fn assert_same_value(input: &[u8], around: &Surroundings<'_>, config: &PsConfig) {
    let text = input.strip_prefix("\u{feff}".as_bytes()).unwrap_or(input);
    let value = serde_json::from_slice(text).expect("it was read as JSON");
    let (of_value, _) = PsConfig::from_value(&value, around).expect("it was accepted");
    assert_eq!(&of_value, config);
}

/// What always holds of a configuration that was accepted.
fn check(config: &PsConfig) {
    assert!(!config.models.is_empty());
    let mut tags = HashSet::new();
    for model in &config.models {
        assert!(!model.tables.is_empty() && !model.devices.is_empty(), "{model:?}");
        assert!(model.max_batch_size > 0 && model.worker_buffers > 0 && model.label_dim > 0);
        for table in &model.tables {
            assert!(!table.sparse_folders.is_empty(), "{table:?}");
            assert!(table.vector_size != Some(0) && table.default_value.is_finite(), "{table:?}");
            assert!(table.fused.is_empty() || table.fused.len() == table.sparse_folders.len());
            let tag = config.tag_style.table_tag(&model.name, &table.name);
            let is_of_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            assert!(tag.as_str().bytes().all(is_of_tag), "{tag}");
            assert!(tags.insert(tag), "{}.{} twice", model.name, table.name);
        }
    }
    check_levels(config);
}

fn check_levels(config: &PsConfig) {
    let PsConfig { ram, redis, persistent, update_source, .. } = config;
    if let Some(ram) = ram {
        assert!(ram.num_partitions > 0 && ram.allocation_rate > 0 && ram.fill.overflow.margin > 0);
    }
    if let Some(redis) = redis {
        assert!(!redis.addresses.is_empty());
        assert!((1..=redis.num_partitions).contains(&redis.num_node_connections));
        assert!(redis.batches.read_rows > 0 && redis.batches.write_rows > 0);
    }
    if let Some(kafka) = update_source {
        assert!(!kafka.brokers.is_empty() && !kafka.poll_timeout.is_zero());
        assert!(kafka.max_batch_size > 0 && kafka.max_commit_interval > 0);
    }
    let fills = [ram.as_ref().map(|level| &level.fill), redis.as_ref().map(|level| &level.fill)];
    for fill in fills.into_iter().flatten() {
        assert!(0.0 < fill.overflow.target && fill.overflow.target < 1.0);
        assert!((0.0..=1.0).contains(&fill.initial_cache_rate));
    }
    let filters = fills.map(|fill| fill.map(|fill| &fill.update_filters));
    let persistent = persistent.as_ref().map(|level| &level.update_filters);
    for filters in filters.into_iter().chain([persistent]).flatten() {
        let is_any_updated = config.models.iter().any(|model| filters.matches(&model.name));
        assert!(!is_any_updated || !filters.filters().is_empty(), "a model of no filter");
    }
}
