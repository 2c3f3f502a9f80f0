//! All tables of a configuration, served: loaded, looked up in, updated and kept fresh.

mod cache_refresh;
mod table_updates;

pub use cache_refresh::{CacheRefresh, RefreshPlan};
pub use table_updates::TableUpdates;
