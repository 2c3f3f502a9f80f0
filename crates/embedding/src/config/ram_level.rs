//! The level in the memory of this process.

use super::fields::Fields;
use super::generation::Generation;
use super::level_fill::LevelFill;

#[derive(Clone, Debug, PartialEq)]
pub struct RamLevelConfig {
    /// Parts of each table that are read and written in parallel.
    pub num_partitions: u32,
    /// Bytes that a partition takes for rows at once.
    pub allocation_rate: u64,
    pub fill: LevelFill,
}

/// More of them, and a partition holds next to nothing.
pub const PARTITIONS_MAX: u64 = 65_536;
const DEFAULT_PARTITIONS_MAX: usize = 16;
/// Has a meaning for a map in memory only.
pub const MAP_FIELDS: [&str; 2] = ["algorithm", "allocation_rate"];
/// Has a meaning for a map that several processes share only.
pub const SHARED_MEMORY_FIELDS: [&str; 3] =
    ["shared_memory_size", "shared_memory_name", "shared_memory_auto_remove"];

impl RamLevelConfig {
    pub(super) fn read(fields: &mut Fields<'_>, generation: Generation, cores: usize) -> Self {
        // There is one map.
        fields.no_effect(&["algorithm"]);
        let default = cores.clamp(1, DEFAULT_PARTITIONS_MAX) as u64;
        let partitions = fields.whole("num_partitions", 1..=PARTITIONS_MAX).unwrap_or(default);
        RamLevelConfig {
            num_partitions: partitions as u32,
            allocation_rate: fields.whole("allocation_rate", 1..=1 << 40).unwrap_or(256 << 20),
            fill: LevelFill::read(fields, generation),
        }
    }

    /// The level that a map of several processes asks for is one of this process.
    pub(super) fn read_multi_process(
        fields: &mut Fields<'_>,
        generation: Generation,
        cores: usize,
    ) -> Self {
        fields.whole("shared_memory_size", 1..=u64::MAX);
        fields.text("shared_memory_name");
        fields.flag("shared_memory_auto_remove");
        let text = "each process has a map of its own here, and shared_memory_* has no effect; \
                    let one server serve all models, or share rows in redis_cluster";
        fields.report().note(fields.path_of("type"), text);
        RamLevelConfig::read(fields, generation, cores)
    }
}
