//! The levels that hold a part of the tables: `volatile_db`, or `cpu_memory_db` and
//! `distributed_db` in older files.
//!
//! The last release has one such level, in memory or in Redis; release 3.3 had both, memory above
//! Redis.

use super::fields::{Choice, Fields, Section};
use super::generation::Generation;
use super::level_fill::FILL_FIELDS;
use super::ram_level::{MAP_FIELDS, RamLevelConfig, SHARED_MEMORY_FIELDS};
use super::redis_level::{REDIS_FIELDS, RedisLevelConfig};
use super::surroundings::Surroundings;

/// The levels of a configuration that hold a part of the tables.
#[derive(Default)]
pub struct VolatileLevels {
    pub ram: Option<RamLevelConfig>,
    pub redis: Option<RedisLevelConfig>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LevelKind {
    Disabled,
    Map,
    MultiProcessMap,
    Redis,
}

const DISABLED: Choice<LevelKind> = (&["disabled", "disable", "none"], LevelKind::Disabled);
const HASH_MAP: Choice<LevelKind> = (&["hash_map", "hashmap", "hash", "map"], LevelKind::Map);
const PARALLEL_HASH_MAP: Choice<LevelKind> =
    (&["parallel_hash_map", "parallel_hashmap", "parallel_hash", "parallel_map"], LevelKind::Map);
const MULTI_PROCESS_HASH_MAP: Choice<LevelKind> = (
    &["multi_process_hash_map", "multi_process_hashmap", "multi_process_hash", "multi_process_map"],
    LevelKind::MultiProcessMap,
);
const REDIS_CLUSTER: Choice<LevelKind> = (&["redis_cluster", "redis"], LevelKind::Redis);

impl VolatileLevels {
    /// The last release's one level.
    pub fn read_volatile_db(top: &mut Fields<'_>, around: &Surroundings<'_>) -> Self {
        let kinds = [DISABLED, HASH_MAP, PARALLEL_HASH_MAP, MULTI_PROCESS_HASH_MAP, REDIS_CLUSTER];
        let level = Level { generation: Generation::Last, around };
        // Without the object there is a level in memory; with an object that names no type, none.
        level.read(top, "volatile_db", &kinds, LevelKind::Map, LevelKind::Disabled)
    }

    /// The two levels of release 3.3; memory is on and Redis is off unless the file says otherwise.
    pub fn read_two_levels(top: &mut Fields<'_>, around: &Surroundings<'_>) -> Self {
        let level = Level { generation: Generation::Older, around };
        let maps = [DISABLED, HASH_MAP, PARALLEL_HASH_MAP, MULTI_PROCESS_HASH_MAP];
        let ram = level.read(top, "cpu_memory_db", &maps, LevelKind::Map, LevelKind::Map);
        let off = LevelKind::Disabled;
        let redis = level.read(top, "distributed_db", &[DISABLED, REDIS_CLUSTER], off, off);
        VolatileLevels { ram: ram.ram, redis: redis.redis }
    }
}

/// What one level of a configuration is read with.
struct Level<'a> {
    generation: Generation,
    around: &'a Surroundings<'a>,
}

impl Level<'_> {
    fn read(
        &self,
        top: &mut Fields<'_>,
        name: &'static str,
        kinds: &[Choice<LevelKind>],
        if_absent: LevelKind,
        if_untyped: LevelKind,
    ) -> VolatileLevels {
        let (kind, mut fields) = match top.section(name) {
            Section::Null => return VolatileLevels::default(),
            Section::Absent => (if_absent, Fields::absent(name, top.report())),
            Section::Given(mut fields) => {
                (fields.choice("type", kinds).unwrap_or(if_untyped), fields)
            }
        };
        let levels = self.of_kind(kind, &mut fields);
        fields.finish();
        levels
    }

    fn of_kind(&self, kind: LevelKind, fields: &mut Fields<'_>) -> VolatileLevels {
        let Level { generation, around } = *self;
        let (mut ram, mut redis) = (None, None);
        match kind {
            LevelKind::Disabled => {
                fields.accept(&FILL_FIELDS);
                fields.accept(&MAP_FIELDS);
                fields.accept(&SHARED_MEMORY_FIELDS);
                fields.accept(&REDIS_FIELDS);
            }
            LevelKind::Map => {
                ram = Some(RamLevelConfig::read(fields, generation, around.cores));
                fields.no_effect(&REDIS_FIELDS);
                fields.no_effect(&SHARED_MEMORY_FIELDS);
            }
            LevelKind::MultiProcessMap => {
                ram = Some(RamLevelConfig::read_multi_process(fields, generation, around.cores));
                fields.no_effect(&REDIS_FIELDS);
            }
            LevelKind::Redis => {
                redis = Some(RedisLevelConfig::read(fields, generation, around.folder));
                fields.no_effect(&MAP_FIELDS);
                fields.no_effect(&SHARED_MEMORY_FIELDS);
            }
        }
        VolatileLevels { ram, redis }
    }
}
