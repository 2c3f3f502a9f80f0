//! One layer over one cell: forward with what backward needs, and backward.
//!
//! All products of a cell's tokens are computed at once; only attention goes chunk by chunk, for
//! the slots change between them.

mod backward;
mod cell_pass;
mod forward;
mod layer_pass;
mod projected;

pub(crate) use backward::SlotGradients;
pub(crate) use cell_pass::{BatchRope, CellPass};
pub(crate) use forward::LayerTrace;
pub(crate) use layer_pass::LayerPass;
