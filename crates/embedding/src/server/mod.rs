//! All tables of a configuration, served: loaded, looked up in, updated and kept fresh.
//!
//! A [`ParameterServer`] is one set of tables; several may be served beside each other over the
//! same [`SharedDatabases`], and come and go with the models that they are of.

mod cache_refresh;
mod dense_versions;
mod due_walks;
mod each_once;
mod fed_table;
mod feed_upkeep;
mod live_table;
mod parameter_server;
mod placement;
mod redis_kept;
mod redis_upkeep;
mod served_sets;
mod set_feeds;
mod set_serve;
mod set_start;
mod set_table;
mod shared_databases;
mod start_error;
mod start_options;
mod starting_table;
mod storage_choice;
mod storage_claims;
mod stored_versions;
mod table_plan;
mod table_size;
mod table_start;
mod table_updates;
mod table_upkeep;
mod ticker;
mod topic_feed;
mod update_feeds;

pub use cache_refresh::{CacheRefresh, RefreshPlan};
pub use dense_versions::{DenseVersions, dense_topic};
pub use parameter_server::ParameterServer;
pub use placement::{Place, PlaceBudgets, PlacedTable, place};
pub use served_sets::{NamedTable, ServedSets};
pub use set_serve::PreparedSet;
pub use shared_databases::{DatabaseOptions, SharedDatabases};
pub use start_error::StartError;
pub use start_options::{SetOptions, StartOptions};
pub use table_plan::{OpenFolder, TableFiles, TableName, TablePlan};
pub use table_size::{CacheBytes, LevelBytes, TableSize};
pub use table_start::StartProgress;
