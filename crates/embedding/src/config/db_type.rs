//! The levels of files from before release 3.3: one `db_type` with a few fields beside it.

use super::fields::{Choice, Fields};
use super::generation::{Generation, entries};
use super::node_address::NodeAddress;
use super::persistent_db::{PersistentConfig, PersistentKind, rocks_db_path};
use super::ram_level::RamLevelConfig;
use super::redis_level::RedisLevelConfig;
use super::scalar::Reals;
use super::surroundings::Surroundings;

/// What takes the place of the sections of later files.
pub struct DbTypeLevels {
    pub ram: Option<RamLevelConfig>,
    pub redis: Option<RedisLevelConfig>,
    pub persistent: Option<PersistentConfig>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DbType {
    Local,
    Cluster,
    RocksDb,
    /// Redis above RocksDB.
    Hierarchy,
}

const DB_TYPES: [Choice<DbType>; 4] = [
    (&["local"], DbType::Local),
    (&["cluster", "redis"], DbType::Cluster),
    (&["rocksdb"], DbType::RocksDb),
    (&["hierarchy"], DbType::Hierarchy),
];
/// What later files have instead.
const LATER: [&str; 5] =
    ["volatile_db", "cpu_memory_db", "distributed_db", "persistent_db", "peristent_db"];

impl DbTypeLevels {
    pub fn read(top: &mut Fields<'_>, around: &Surroundings<'_>) -> Self {
        for name in LATER.iter().filter(|name| top.has(name)) {
            let text = "found beside db_type, which older files have in its place; keep one";
            top.report().problem(*name, text);
        }
        top.accept(&LATER);
        let db_type = read_db_type(top);
        let mut levels = DbTypeLevels { ram: None, redis: None, persistent: None };
        let none = &mut Fields::absent("db_type", top.report());
        if db_type == DbType::Local {
            levels.ram = Some(RamLevelConfig::read(none, Generation::Older, around.cores));
        }
        if matches!(db_type, DbType::Cluster | DbType::Hierarchy) {
            let mut redis = RedisLevelConfig::read(none, Generation::Older, around.folder);
            let default = NodeAddress { host: "127.0.0.1".to_owned(), port: 7000 };
            redis.addresses = NodeAddress::read(top, "redis_ip", default);
            levels.redis = Some(redis);
        }
        if matches!(db_type, DbType::RocksDb | DbType::Hierarchy) {
            let (kind, older) = (PersistentKind::RocksDb, Generation::Older);
            let path = rocks_db_path(top, "rocksdb_path", around.folder);
            levels.persistent = Some(PersistentConfig::of_kind(kind, path, none, older));
        }
        if let (Some(redis), true) = (&mut levels.redis, db_type == DbType::Hierarchy) {
            redis.fill.initial_cache_rate = read_cache_rate(top).unwrap_or(0.5);
        }
        let [redis, rocks_db] = [levels.redis.is_some(), levels.persistent.is_some()];
        let unused = [
            ("redis_ip", redis),
            ("rocksdb_path", rocks_db),
            ("cache_size_percentage_redis", redis && rocks_db),
        ];
        for (name, _) in unused.into_iter().filter(|(_, is_used)| !is_used) {
            top.no_effect(&[name]);
        }
        levels
    }
}

/// The one type of a file, which stands beside the models or in each of them.
fn read_db_type(top: &mut Fields<'_>) -> DbType {
    let mut given = top.choice("db_type", &DB_TYPES);
    for (index, entry) in entries(top) {
        let mut entry = Fields::new(format!("models[{index}]"), entry, top.report());
        let Some(db_type) = entry.choice("db_type", &DB_TYPES) else { continue };
        if *given.get_or_insert(db_type) != db_type {
            let path = entry.path_of("db_type");
            entry.wrong(&path, "another one than before", "the same for all models");
        }
    }
    given.unwrap_or(DbType::Local)
}

/// 0.5 and 50 are both one half.
fn read_cache_rate(top: &mut Fields<'_>) -> Option<f64> {
    let name = "cache_size_percentage_redis";
    let rate = top.real(name, Reals::NotNegative)?;
    match rate {
        0.0..=1.0 => Some(rate),
        ..=100.0 => Some(rate / 100.0),
        _ => {
            top.wrong(&top.path_of(name), rate, "a share from 0 to 1, or a percentage up to 100");
            None
        }
    }
}
