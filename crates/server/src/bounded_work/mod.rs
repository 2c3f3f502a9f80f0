//! What a request's work is bounded by: memory, time, and the threads that may block.

mod off_thread;
mod time_limit;
mod work_memory;

pub use off_thread::off_thread;
pub use time_limit::{TimeLimit, within_limits};
pub use work_memory::{HeldMemory, WorkMemory};
