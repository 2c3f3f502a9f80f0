//! How a model learns with the cache policy in place: gradients through what is kept and evicted,
//! in bounded memory.
//!
//! A model that will run with a selective cache sees less of its text than it was trained with.
//! Here it is trained with the same cache. Decisions carry no gradient: they are made once, in a
//! forward pass with the real policy, and replayed from its log. What remains is an ordinary
//! computation, in which a query attends to the keys and values that its slots hold.
//!
//! ```text
//!               cell 0          cell 1     cell 2          tokens ->
//!             +-------+-------+-----------+-----------+
//!   row 1     | chunk | chunk | chunk ... | chunk ... |  <- d_rows: gradients of its outputs
//!   (layers)  +-------+-------+-----------+-----------+
//!   row 0     |       |       |           |           |  <- row_inputs: checkpoints
//!             +-------+-------+-----------+-----------+
//! ```
//!
//! - A *chunk* is some tokens that choose their slots together; it is the policy's, and gradients
//!   depend on it. A *cell* is a run of chunks, a *row* a run of layers, and one cell of one row is
//!   what is run forward and backward at a time ([`Lattice`]). Gradients do not depend on these.
//! - *Forward* (`forward_pass`): cells left to right, all layers of each. It keeps the input of
//!   every row, the log of decisions ([`BatchReplay`]), and of the cell that backward begins with
//!   all that backward needs; nothing else.
//! - *Backward* (`backward_pass`): rows from the top, cells right to left. A cell is run again
//!   with everything kept (`layer::LayerTrace`) and walked back. Two things pass between cells:
//!   the gradients of the row's inputs, which take the place of those of its outputs, and the
//!   gradients of the slots, which the cell to the left goes on with.
//! - *Slots* (`slots::LayerSlots`) are there once for each layer of a row, not once a chunk. A
//!   chunk that is placed keeps the rows it overwrote, and going back restores them.
//! - A token's key and value never change once computed. So the slots that a cell begins with are
//!   gathered by the log from the keys and values of all tokens; with one layer a row these are two
//!   products of what was kept, and no second forward pass is run.
//!
//! Whose memory it is: the passes own `Tensor`s of a cell and give them up with it;
//! checkpoints are owned by the run, gradients and weights by the caller. Every array goes to the
//! ops as a view, and every op is in [`TuneOps`](terrace_kernels::TuneOps): passes are the same on
//! a CPU and on a GPU. Activations have the ops' own type; the residual stream and gradients are
//! f32. Where a device has memory of its own, layers' inputs lie in pinned memory of the host, so
//! that the device does not grow with the text by more than one layer's keys and values.
//!
//! [`golden`] holds all of it to what the original computed.
#![forbid(unsafe_code)]

mod backward_pass;
mod batch;
mod checkpoints;
pub mod data;
mod error;
#[cfg(test)]
mod exact_ops;
mod forward_pass;
pub mod golden;
mod gradient_options;
mod gradient_pass;
pub mod head;
mod layer;
mod loss_factors;
mod model;
pub mod optimiser;
mod pass_events;
mod plan;
pub mod record;
pub mod run;
mod saved_file;
mod slots;
mod tensor;

pub use batch::Batch;
pub use error::Error;
pub use gradient_options::GradientOptions;
pub use gradient_pass::{BatchLoss, GradientPass, PassTimes};
pub use loss_factors::LossMean;
pub use model::{
    Gradients, LoraKind, LoraOptions, LoraTargets, ParameterId, ParameterInfo, Training,
    TunedModel, WeightsAt,
};
pub use plan::{Cell, CellLength, Lattice, LatticeOptions, layer_rows};
pub use slots::{BatchReplay, Rounding};
