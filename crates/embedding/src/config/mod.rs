//! The parameter server's configuration, as users of HugeCTR have it.
//!
//! [`PsConfig::read`] takes `ps.json` of every release, and a network with an `inference` block,
//! into one type. Values may be numbers or strings. What is wrong is refused with its JSON path,
//! several errors at once; what nothing reads, and what has no effect, is a [`Warning`].

mod batch_sizes;
mod config_error;
mod database_difference;
mod db_type;
mod fields;
mod fused_tables;
mod generation;
mod gpu_cache;
mod json_text;
mod level_fill;
mod model_entry;
mod model_path;
mod nearest_name;
mod network_inference;
mod node_address;
mod overflow;
mod persistent_db;
mod ps_config;
mod ram_level;
mod redis_level;
mod report;
mod scalar;
mod surroundings;
mod table_config;
mod table_list;
mod update_filters;
mod update_source;
mod volatile_levels;
mod warning;

pub use batch_sizes::BatchSizes;
pub use config_error::{ConfigError, Problem};
pub use gpu_cache::{GpuCacheConfig, GpuCacheKind};
pub use level_fill::LevelFill;
pub use model_entry::{ModelTables, RequestTable};
pub use model_path::ModelPath;
pub use node_address::NodeAddress;
pub use overflow::{OverflowConfig, OverflowPolicy};
pub use persistent_db::{PersistentConfig, PersistentKind};
pub use ps_config::{Placement, PsConfig};
pub use ram_level::RamLevelConfig;
pub(crate) use redis_level::{DEFAULT_CLIENT_CERTIFICATE, DEFAULT_CLIENT_KEY};
pub use redis_level::{Password, RedisLevelConfig, TlsConfig};
pub use surroundings::Surroundings;
pub use table_config::{FusedTable, TableConfig};
pub(crate) use table_list::VECTOR_SIZE_MAX;
pub use update_filters::UpdateFilters;
pub use update_source::KafkaConfig;
pub use warning::Warning;
