//! Gradients as their users see them.

mod data_files;
mod dropout;
mod golden;
mod heads;
mod lattices;
mod memory;
mod records;
mod refusals;
mod rounded;
mod runs;
mod small_model;
