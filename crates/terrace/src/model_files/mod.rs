//! Models by name: which ones are known, where they lie on this machine, how they get there. Models
//! of the Hugging Face hub are in `hub`.
//!
//! Invariant: a file under its final name is complete. Whatever is in the making lies in a
//! `.partial` folder beside it and is moved by one rename.

mod cache_folder;
mod hashed_copy;
mod hub;
mod known_model;
mod model_folder;
mod wheel;

pub use cache_folder::cache_folder;
pub use hub::{Hub, HubId};
pub use known_model::KnownModel;
pub use model_folder::{Check, ModelFolder};

#[cfg(test)]
mod tests;
