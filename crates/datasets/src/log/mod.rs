//! Interaction logs: which columns they have, and their rows as events.

mod log_files;
mod log_layout;
mod rating_code;

pub use log_files::LogFiles;
pub use log_layout::{Delimiter, Role};
pub use rating_code::RatingCode;
