//! Gradients as their users see them.

mod data_files;
mod golden;
mod lattices;
mod records;
mod refusals;
mod small_model;
