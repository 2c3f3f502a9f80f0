//! `terrace cache save|list|show|export|import|rm`: named KV caches of a running server.

mod export;
mod handle_shape;
mod import;
mod list;
mod rm;
mod save;
mod server_client;
mod show;

pub use export::{ExportArgs, run as export};
pub use import::{ImportArgs, run as import};
pub use list::{ListArgs, run as list};
pub use rm::{RmArgs, run as rm};
pub use save::{SaveArgs, run as save};
pub use show::{ShowArgs, run as show};

/// Where a server has its handles.
const ROUTE: &str = "/v1/kv_cache/handles";
