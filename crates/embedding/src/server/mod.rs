//! All tables of a configuration, served: loaded, looked up in, updated and kept fresh.

mod cache_refresh;
mod dense_versions;
mod due_walks;
mod feed_upkeep;
mod parameter_server;
mod placement;
mod redis_upkeep;
mod server_start;
mod start_error;
mod table_plan;
mod table_size;
mod table_start;
mod table_updates;
mod ticker;
mod update_feeds;

pub use cache_refresh::{CacheRefresh, RefreshPlan};
pub use dense_versions::{DenseVersions, dense_topic};
pub use parameter_server::ParameterServer;
pub use placement::{Place, PlaceBudgets, PlacedTable, place};
pub use server_start::StartOptions;
pub use start_error::StartError;
pub use table_plan::{OpenFolder, TableFiles, TableName, TablePlan};
pub use table_size::{CacheBytes, LevelBytes, TableSize};
pub use table_start::StartProgress;
pub use table_updates::TableUpdates;
