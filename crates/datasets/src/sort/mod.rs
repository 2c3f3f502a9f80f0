//! Events by user and time, more than fit into memory: sorted in parts, which lie in files, and
//! merged.

mod event_sorter;
mod merged_events;
mod run_code;
mod run_reader;
mod run_writer;

pub use event_sorter::{SortMemory, SortedRuns, sort_events};
