//! Checkpoints of HSTU models in the forms of the originals, and from one form to the other.
//!
//! [`HstuCheckpoint`] is a model's configuration and tensors under our names, wherever they lie. It
//! is read from our folder, from one of recsys-examples or from a file of generative-recommenders,
//! and written as any of them that can say what it is; what a form cannot say is refused by name.

mod checkpoint_tensor;
mod dynamic_tables;
mod generative_names;
mod generative_reader;
mod generative_writer;
mod hstu_checkpoint;
mod open_recsys;
mod recsys_gin;
mod recsys_names;
mod recsys_reader;
mod recsys_writer;
mod state_dict;
mod terrace_writer;

pub use self::generative_reader::GenerativeArgs;
pub use self::hstu_checkpoint::HstuCheckpoint;
