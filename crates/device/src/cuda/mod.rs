//! NVIDIA GPUs through their driver, found at run time.
//!
//! Nothing of CUDA is needed to build or to start the program: the driver's library is opened when
//! a device is asked for. Kernels come as PTX text, which the driver compiles.
//!
//! All memory is taken at start, within a share of the card; what is loaded later comes out of an
//! arena that was reserved then. Work goes to one compute stream in the order it is given, so a
//! later launch sees what an earlier one wrote; a [`CopyStream`] copies beside it. A launch that
//! fails leaves its error with the device; [`CudaDevice::synchronize`] and [`CudaEvent::wait`]
//! report the first one.

mod call;
mod copy_pieces;
mod copy_stream;
mod cuda_device;
mod cuda_event;
mod cuda_kernel;
mod device_budget;
mod device_memory;
mod free_ranges;
mod graph;
mod page_lock;
mod pinned_buffer;
mod pinned_pages;
mod pinned_pages_coming;
mod pinned_pool;
mod pinned_segment;
mod probe;
mod tensor_map;

pub use copy_pieces::CopyPieces;
pub use copy_stream::CopyStream;
pub use cuda_device::CudaDevice;
pub use cuda_event::CudaEvent;
pub use cuda_kernel::{CudaKernel, CudaModule, Launch};
pub use graph::CudaGraph;
pub use pinned_buffer::PinnedBuffer;
pub use pinned_pages::{PageRead, PageWrite, PinnedPages};
pub use pinned_pages_coming::PinnedPagesComing;
pub use pinned_pool::{PinnedPool, PooledPinned};
pub use probe::{CudaInfo, CudaMissing, probe};
pub use tensor_map::{PageBoxes, TensorMap};

pub(crate) use device_memory::DeviceMemory;
