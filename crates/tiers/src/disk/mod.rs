//! The tier on a local disk: one file of fixed frames, one directory of what is in them.

mod directory_file;
mod disk_tier;
mod folder;
mod frame_file;
mod frame_space;
mod in_parallel;
mod io_fault;

pub use disk_tier::{DiskTier, DiskTierConfig};
pub(crate) use io_fault::io_fault;
