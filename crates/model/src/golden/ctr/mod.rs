//! Click-through models held to reference results, on whatever device the ops compute.

mod check;
mod golden_table;
mod model_files;
mod model_run;
mod request_keys;

pub use check::check_folder;
