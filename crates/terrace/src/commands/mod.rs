//! One file for each subcommand: its arguments and what it does with them.

pub mod pull;
