//! How a batch is cut: chunks of tokens, cells of chunks, rows of layers. All of it is a function
//! of lengths alone.

mod cell_length;
mod lattice;
mod layer_rows;

pub use cell_length::CellLength;
pub use lattice::{Cell, Lattice, LatticeOptions};
pub use layer_rows::layer_rows;
