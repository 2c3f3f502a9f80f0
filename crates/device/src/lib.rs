//! Where bytes live: buffers, views of them, scratch space, mapped files, and the threads that
//! work on them.
//!
//! Nothing here computes. A [`Buffer`] is memory taken once at start; a [`View`] says how a part
//! of it is to be read; `terrace-kernels` does the arithmetic. Together with the kernels this is
//! the only crate where `unsafe` may stand.

mod buffer;
mod buffer_pool;
pub mod cuda;
mod device;
mod dtype;
mod error;
mod host_map;
mod memory_record;
mod memory_space;
mod prefetch;
mod shape;
mod shared_rows;
mod view;
mod worker_pool;
mod workspace;

pub use buffer::Buffer;
pub use buffer_pool::{BufferPool, PooledBuffer};
pub use device::Device;
pub use dtype::{DType, Element};
pub use error::Error;
pub use host_map::HostMap;
pub use memory_record::{HeldMemory, MemoryChange, MemoryEvent, MemoryRecord};
pub use prefetch::prefetch;
pub use shape::Shape;
pub use shared_rows::SharedRows;
pub use view::{View, ViewMut};
pub use worker_pool::{Tasks, WorkerPool};
pub use workspace::Workspace;
