//! One file for each subcommand: its arguments and what it does with them.

pub mod bench;
pub mod cache;
pub mod chat;
pub mod compile_grammar;
pub mod eval;
pub mod finetune;
pub mod generate;
mod percentiles;
pub mod predict;
pub mod preprocess;
mod print_report;
pub mod ps;
pub mod pull;
pub mod rank;
pub mod selftest;
pub mod serve;
mod welcome;
