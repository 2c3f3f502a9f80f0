//! Pages moved between host memory and a device's pool, part by part.
//!
//! pages: u8 `[pages, page_bytes]` on the device · each move is a page in host memory and the
//! number of one on the device · parts: ranges of bytes inside a page, in the order in which they
//! arrive, all pages of one part before the next: a step may begin with the first layers while the
//! last are on their way.
//!
//! Roofline: the link, about 55 GB/s over PCIe 5 with 16 lanes.

mod cuda;
mod cuda_mover;
mod layer_cuts;
mod mapped_buffer;
mod move_way;
mod page_mover;
mod page_moves;
mod page_transfer;
mod reference;

pub use layer_cuts::LayerCuts;
pub use mapped_buffer::{HostCopier, MappedBuffer};
pub use move_way::MoveWay;
pub use page_mover::PageMover;
pub use page_moves::PageMoves;
pub use page_transfer::PageTransfer;
