//! What a request's work is bounded by: memory, time, and the threads that may block.

mod off_thread;
mod time_limit;
mod work_memory;

pub use off_thread::{off_thread, off_thread_if_large};
pub use time_limit::{TimeLimit, within_limits, within_time};
pub use work_memory::{HeldMemory, WorkMemory};
