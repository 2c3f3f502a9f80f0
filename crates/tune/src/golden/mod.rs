//! Gradients against those that awslabs/keys_values computed.

mod check;
mod gradient_run;
mod litgpt_model;
mod litgpt_names;
mod recorded_log;

pub use check::check_folder;
pub use litgpt_model::LitGptConfig;
