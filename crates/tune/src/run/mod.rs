//! A run of training: steps over batches, validation between them, and a state that is saved whole
//! and gone on from exactly.
//!
//! ```text
//!   BatchOrder -> micro-batches -> ranks -> gradients -> clip -> optimiser -> weights
//!                                                          |                     |
//!                                    RunEvents <- loss, norm, memory     RunStates, SaveModel
//! ```
//!
//! A step takes `global_batch_size / micro_batch_size` micro-batches, shares them out among ranks
//! and changes the weights by their mean gradient. [`Trainer`] owns the model and its optimiser;
//! what is shown and written is up to its [`RunEvents`], and the form in which a model is saved to
//! its [`SaveModel`].

mod batch_stream;
mod early_stopping;
mod generate;
mod memory_peak;
mod memory_snapshots;
mod progress;
mod rank_gradients;
mod replicas;
mod run_arrays;
mod run_events;
mod run_options;
mod run_state;
mod running;
mod save_model;
mod trainer;
mod validation;

pub use early_stopping::EarlyStopping;
pub use generate::Generate;
pub use memory_snapshots::{MemorySnapshots, SnapshotKind};
pub use progress::Progress;
pub use run_events::RunEvents;
pub use run_options::{EvalOptions, RunOptions, TrainOptions, WarmUp};
pub use run_state::{RunStates, StateError};
pub use save_model::{SaveModel, SavedAt};
pub use trainer::Trainer;
