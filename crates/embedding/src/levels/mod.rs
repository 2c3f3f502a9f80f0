//! The levels below the hot caches, as a look-up goes through them.

mod fill_gate;
mod level;
mod read_threads;
mod table_levels;

pub use fill_gate::{FillGate, FillTicket};
pub use level::{Level, LevelConfig, LevelCounters, LevelKind};
pub use read_threads::ReadThreads;
pub use table_levels::{Fetched, TableLevels};
