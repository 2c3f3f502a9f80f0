//! Configurations as users have them and stores of rows, from outside the crate.

mod any_input;
mod fixtures;
mod loading;
mod lookups;
mod older_forms;
mod ps_json;
mod ram;
mod store_history;
mod warnings;
mod wrong_values;
