//! What is computed: about a dozen fused ops, one folder each, over views.
//!
//! Every op has a plain `reference.rs`, which is its specification and its oracle; faster versions
//! are held to it by [`conformance`]. [`Ops`] is the table of versions chosen once for a device.
//! No op allocates, and no op's result for a row depends on what else is in the batch.

mod attend;
mod attention;
mod cast;
mod choose_slots;
mod commit;
pub mod conformance;
mod copy_pages;
mod cpu_level;
mod cpu_ops;
mod cuda;
mod embed;
mod error;
mod fill_random;
mod fp8;
mod gate;
mod gather_rows;
mod kv_layout;
mod lanes;
mod linear;
mod matrix;
mod ops;
mod paged_attention;
mod paged_kv;
mod philox;
mod project;
mod quantise;
mod rms_norm;
mod rope;
mod rope_angles;
mod rope_commit;
mod row_origins;
pub mod sample;
mod slot_attention;
mod slot_kv;
mod slot_layout;
mod slot_pages;
mod slot_scorer;
mod strips;
mod unpack;
mod weight_format;

pub use attend::{AttendArgs, AttendScratch};
pub use cpu_level::CpuLevel;
pub use cpu_ops::{AttentionArgs, Compute, CpuOps, CpuOptions, Projection};
pub use cuda::{CudaOps, CudaOptions};
pub use error::Error;
pub use kv_layout::{GroupKv, KvLayout};
pub use linear::{Linear, LinearPart, LinearShape, TableUse, Vector};
pub use matrix::Matrix;
pub use ops::{Activation, Ops, RopeAngles, RopeStyle};
pub use paged_kv::{CHUNK_TILE_TOKENS, PageLayout, PagedKv};
pub use quantise::Quantiser;
pub use rope_angles::RopeFrequencies;
pub use row_origins::RowOrigins;
pub use slot_attention::{AttendSlotsArgs, TurnedRope, max_scored_slots};
pub use slot_kv::{ReadRope, SlotKv, SlotRule, SlotRuleKind};
pub use slot_layout::{RowFormat, SlotLayout, SlotNotes, SlotPlaces};
pub use slot_scorer::{HeadSlots, SlotScorer};
pub use unpack::unpack_row;
pub use weight_format::WeightFormat;
