//! Look-ups of rows: different keys, hot cache, levels, and the same rows for equal keys.

mod cuda_lookup;
mod fill_threads;
mod host_lookup;
mod host_rows;
mod lookup_pool;
mod lookup_stats;
mod missing_rows;
mod prefetch;
mod served_table;
mod table_cache;

pub use cuda_lookup::{CudaLookup, DeviceRows};
pub use fill_threads::FillThreads;
pub use host_rows::HostRows;
pub use lookup_pool::LookupPool;
pub use lookup_stats::{LookupStats, TableCounters};
pub use missing_rows::MissingRows;
pub use prefetch::Prefetched;
pub use served_table::{ServedTable, ServedTableConfig, UpdateError, UpdateScope};
pub use table_cache::{CacheHolds, TableCache, TableCacheConfig};
