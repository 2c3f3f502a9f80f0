//! Pointwise attention of HSTU: sums over keys without a softmax.
//!
//! `out_i = f_i * sum over j of silu(scale q_i k_j + bias_ij) v_j`, over the keys that row i sees.
//!
//! A sequence is its history, whose keys and values are in pages or live in this step, and after it
//! candidates, which are live and never kept. What a row sees is a range of the history and a range
//! of the candidates ([`RowSpan`]), which is all that the masks of HSTU need. Without a softmax
//! nothing is carried from key to key, so keys may be summed in any order; every kernel sums those
//! of the history in blocks that start at fixed positions and then those of candidates. So a
//! result does not depend on where the cached part ends, nor on the rows beside it.
//!
//! Roofline: `2 (key_dim + value_dim)` flops per row, head and visible key.

mod attend;
mod attend_args;
mod check;
pub(crate) mod cuda;
mod layer;
mod placed_time_buckets;
#[cfg(target_arch = "x86_64")]
mod prompt_tile;
pub(crate) mod reference;
mod relative_bias;
mod row_span;
mod row_tiles;
mod step_size;
mod tile;
mod time_buckets;
mod vectors;

pub(crate) use attend::{attend, scratch_bytes};
pub use attend_args::{AttendedRows, HstuAttendArgs, HstuKv, HstuTileViews, RowScale, live_slot};
pub use placed_time_buckets::PlacedTimeBuckets;
pub use relative_bias::RelativeBias;
pub use row_span::RowSpan;
pub use row_tiles::{HSTU_TILE_ROWS, HstuRowTile, HstuTiles, HstuTiling};
pub use step_size::HstuStepSize;
pub use time_buckets::TimeBuckets;
