//! The CPU as a device: its threads, its instruction levels, and vectors over them.

pub(crate) mod converted_rows;
pub(crate) mod cpu_ctx;
pub(crate) mod cpu_level;
pub(crate) mod cpu_options;
mod detect;
pub(crate) mod lanes;
