//! In which setting of levels and updates two configurations differ.
//!
//! Databases are opened once for all models of a process, so a configuration that is read again may
//! have other models and nothing else.

use super::level_fill::LevelFill;
use super::persistent_db::PersistentConfig;
use super::ps_config::PsConfig;
use super::ram_level::RamLevelConfig;
use super::redis_level::RedisLevelConfig;
use super::update_source::KafkaConfig;
use crate::table_tag::TagStyle;

/// A setting's name, and whether it is the same.
type Setting = (&'static str, bool);

impl PsConfig {
    /// The first that differs, by its place in ps.json; models are not compared.
    pub fn database_difference(&self, other: &PsConfig) -> Option<String> {
        let [memory, redis] = match self.tag_style {
            TagStyle::Hps => ["volatile_db"; 2],
            TagStyle::Hctr => ["cpu_memory_db", "distributed_db"],
        };
        let whole = [
            ("supportlonglong", self.key_kind == other.key_kind),
            ("the release that the file is for", {
                let names = self.tag_style == other.tag_style;
                names && self.partition_rule == other.partition_rule
            }),
            ("placement", self.placement == other.placement),
        ];
        first(&whole)
            .map(str::to_owned)
            .or_else(|| in_section(memory, self.ram.as_ref(), other.ram.as_ref(), &in_ram))
            .or_else(|| in_section(redis, self.redis.as_ref(), other.redis.as_ref(), &in_redis))
            .or_else(|| {
                let [one, another] = [self, other].map(|config| config.persistent.as_ref());
                in_section("persistent_db", one, another, &in_persistent)
            })
            .or_else(|| {
                let [one, another] = [self, other].map(|config| config.update_source.as_ref());
                in_section("update_source", one, another, &in_kafka)
            })
    }
}

fn first(settings: &[Setting]) -> Option<&'static str> {
    settings.iter().find(|(_, is_same)| !is_same).map(|(name, _)| *name)
}

/// Whatever has no name of its own here is the section's.
fn in_section<T: PartialEq>(
    section: &str,
    one: Option<&T>,
    other: Option<&T>,
    settings: &dyn Fn(&T, &T) -> Vec<Setting>,
) -> Option<String> {
    match (one, other) {
        (None, None) => None,
        (Some(one), Some(other)) if one == other => None,
        (Some(one), Some(other)) => Some(match first(&settings(one, other)) {
            Some(name) => format!("{section}.{name}"),
            None => section.to_owned(),
        }),
        _ => Some(format!("{section}.type")),
    }
}

fn in_fill(one: &LevelFill, other: &LevelFill) -> Vec<Setting> {
    let [overflow, others] = [&one.overflow, &other.overflow];
    vec![
        ("overflow_margin", overflow.margin == others.margin),
        ("overflow_policy", overflow.policy == others.policy),
        ("overflow_resolution_target", overflow.target == others.target),
        (
            "initialize_after_startup",
            one.initialize_after_startup == other.initialize_after_startup,
        ),
        ("initial_cache_rate", one.initial_cache_rate == other.initial_cache_rate),
        ("cache_missed_embeddings", one.cache_missed_embeddings == other.cache_missed_embeddings),
        ("update_filters", one.update_filters == other.update_filters),
    ]
}

fn in_ram(one: &RamLevelConfig, other: &RamLevelConfig) -> Vec<Setting> {
    let mut settings = vec![
        ("num_partitions", one.num_partitions == other.num_partitions),
        ("allocation_rate", one.allocation_rate == other.allocation_rate),
    ];
    settings.extend(in_fill(&one.fill, &other.fill));
    settings
}

fn in_redis(one: &RedisLevelConfig, other: &RedisLevelConfig) -> Vec<Setting> {
    let mut settings = vec![
        ("address", one.addresses == other.addresses),
        ("user_name", one.user_name == other.user_name),
        ("password", one.password == other.password),
        ("num_partitions", one.num_partitions == other.num_partitions),
        ("num_node_connections", one.num_node_connections == other.num_node_connections),
        ("max_batch_size", one.batches == other.batches),
        ("enable_tls", one.tls == other.tls),
    ];
    settings.extend(in_fill(&one.fill, &other.fill));
    settings
}

fn in_persistent(one: &PersistentConfig, other: &PersistentConfig) -> Vec<Setting> {
    let is_filled = one.initialize_after_startup == other.initialize_after_startup;
    vec![
        ("type", one.kind == other.kind),
        ("path", one.path == other.path),
        ("num_threads", one.num_threads == other.num_threads),
        ("read_only", one.read_only == other.read_only),
        ("max_batch_size", one.batches == other.batches),
        ("initialize_after_startup", is_filled),
        ("update_filters", one.update_filters == other.update_filters),
    ]
}

fn in_kafka(one: &KafkaConfig, other: &KafkaConfig) -> Vec<Setting> {
    let interval = one.metadata_refresh_interval == other.metadata_refresh_interval;
    vec![
        ("brokers", one.brokers == other.brokers),
        ("metadata_refresh_interval_ms", interval),
        ("receive_buffer_size", one.receive_buffer_bytes == other.receive_buffer_bytes),
        ("poll_timeout_ms", one.poll_timeout == other.poll_timeout),
        ("max_batch_size", one.max_batch_size == other.max_batch_size),
        ("failure_backoff_ms", one.failure_backoff == other.failure_backoff),
        ("max_commit_interval", one.max_commit_interval == other.max_commit_interval),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::surroundings::Surroundings;
    use super::*;

    fn config(fields: &Value, model: &str) -> PsConfig {
        let mut whole = json!({
            "supportlonglong": true,
            "models": [{ "model": model, "sparse_files": ["a"] }],
        });
        let fields = fields.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(fields);
        let around = Surroundings { folder: None, model_name: None, cores: 2 };
        PsConfig::from_value(&whole, &around).unwrap().0
    }

    #[test]
    fn the_setting_that_differs_is_named() {
        let persistent = |path: &str| json!({ "type": "embedded", "path": path });
        let kafka = |brokers: &str| json!({ "type": "kafka", "brokers": brokers });
        let redis = |password: &str| json!({ "type": "redis", "password": password });
        let check = |section: &str, one: Value, other: Value, want: Option<&str>| {
            let [one, other] =
                [(one, "x"), (other, "y")].map(|(it, name)| config(&json!({ section: it }), name));
            assert_eq!(one.database_difference(&other).as_deref(), want);
            assert_eq!(other.database_difference(&one).as_deref(), want);
        };
        check("persistent_db", persistent("a"), persistent("a"), None);
        check("persistent_db", persistent("a"), persistent("b"), Some("persistent_db.path"));
        check("persistent_db", persistent("a"), Value::Null, Some("persistent_db.type"));
        check("update_source", kafka("a:1"), kafka("a:2"), Some("update_source.brokers"));
        check("volatile_db", redis("a"), redis("b"), Some("volatile_db.password"));
        check("volatile_db", redis("a"), json!({ "type": "map" }), Some("volatile_db.type"));
        let margin = |margin: u64| json!({ "type": "map", "overflow_margin": margin });
        check("volatile_db", margin(5), margin(6), Some("volatile_db.overflow_margin"));
        check("placement", json!("auto"), json!("configured"), Some("placement"));
        check("supportlonglong", json!(true), json!(false), Some("supportlonglong"));
        let older = json!({ "type": "map" });
        let newer = config(&json!({ "volatile_db": older }), "x");
        let older = config(&json!({ "cpu_memory_db": older }), "x");
        let want = Some("the release that the file is for".to_owned());
        assert_eq!(newer.database_difference(&older), want);
    }
}
