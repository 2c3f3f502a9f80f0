//! The layer norm of activations, on a GPU; elsewhere these are f32, as the op of HSTU models
//! takes them.

pub(crate) mod cuda;
