//! Click-through models held to reference results, on whatever device the ops compute.

mod check;
mod check_layers;
mod golden_table;
mod layer_case;
mod model_files;
mod model_run;
mod request_keys;

pub use check::check_folder;
