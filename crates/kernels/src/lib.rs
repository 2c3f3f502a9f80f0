//! What is computed: about thirty fused ops over views, grouped by what they are for, one folder
//! each.
//!
//! Every op has a plain `reference.rs`, which is its specification and its oracle; faster versions
//! are held to it by [`conformance`]. [`Ops`] is the table of versions chosen once for a device.
//! No op allocates, and no op's result for a row depends on what else is in the batch, but for
//! [`Ops::dice`], whose rule it is.

mod arithmetic_class;
mod attention;
mod branch_ops;
pub mod conformance;
mod cpu;
mod cpu_ops;
mod ctr;
mod cuda;
mod elementwise;
mod error;
mod gather;
mod hstu;
mod linear;
mod loss;
mod op_clock;
mod ops;
mod pages;
mod quantise;
pub mod random;
pub mod sampling;
mod tiles;
mod tune_ops;

pub use arithmetic_class::{ArithmeticClass, DeviceClass, KERNEL_REVISION};
pub use attention::attend_args::{AttendArgs, AttendScratch, HeadNorms, RerotatedRope};
pub use attention::dense::AttentionArgs;
pub use attention::replay::{
    ChunkAt, KeptRows, ReplayGradients, ReplayQueries, ReplaySlots, RowGradients,
};
pub use attention::slots::max_scored_slots;
pub use branch_ops::BranchOps;
pub use cpu::cpu_level::CpuLevel;
pub use cpu::cpu_options::{Compute, CpuOptions};
pub use cpu_ops::CpuOps;
pub use ctr::activation::CtrActivation;
pub use ctr::attend_sequences::{AttendSequencesArgs, MAX_SEQUENCE_KEYS};
pub use ctr::combine::{Combination, CombineArgs};
pub use ctr::cross_step::CrossStepArgs;
pub use ctr::dice::DiceRule;
pub use ctr::interact::interaction_width;
pub use ctr::multi_cross::MultiCrossArgs;
pub use ctr::pool_rows::{Combiner, PoolRowsArgs};
pub use ctr::reduce_rows::Reduction;
pub use ctr::repeat::Repeated;
pub use ctr::scale_shift::ScaleShiftArgs;
pub use ctr::sequence_mask::SequenceMaskArgs;
pub use cuda::{CudaOptions, RankSums};
pub use elementwise::dropout::Dropout;
pub use elementwise::gate::{Activation, GateGradients};
pub use elementwise::rms_norm::RmsNormGradients;
pub use elementwise::rope::{RopeAngles, RopeStyle};
pub use elementwise::rope_angles::{RopeAnglesArgs, RopeFrequencies};
pub use error::Error;
pub use gather::dedupe_keys::{DedupeArgs, dedupe_keys};
pub use gather::expand_rows::expand_rows;
pub use gather::gather_ops::GatherOps;
pub use gather::hot_cache::{
    CacheWrite, CudaHotCache, HOT_CACHE_WAYS, HostHits, HostHotCache, HotCacheShape, QueryArgs,
    WriteArgs,
};
pub use gather::pool_cached::{POOLED_DIM_MOST, PoolCachedArgs, PoolHostArgs};
pub use hstu::activate::Pointwise;
pub use hstu::attention::{
    AttendedRows, HSTU_TILE_ROWS, HstuAttendArgs, HstuKv, HstuRowTile, HstuStepSize, HstuTileViews,
    HstuTiles, HstuTiling, PlacedTimeBuckets, RelativeBias, RowScale, RowSpan, TimeBuckets,
    live_slot,
};
pub use hstu::embed_tokens::{AddedRows, EmbedTokensArgs};
pub use hstu::gated_norm::{GatedForm, GatedNormArgs, NormExtent};
pub use hstu::layer_norm::Affine;
pub use hstu::step_rows::StepRowsArgs;
pub use hstu::top_items::TopItemsArgs;
pub use linear::biased_weight::BiasedWeight;
pub use linear::gated_args::GatedArgs;
pub use linear::linear::{Linear, LinearShape, TableUse};
pub use linear::lora::{BranchArgs, BranchForm, LoraBranch, LoraGradients, row_norms_on_host};
pub use linear::matmul::Projection;
pub use linear::matrix::Matrix;
pub use linear::row_kinds::RowKinds;
pub use linear::unpack::unpack_row;
pub use linear::vector::Vector;
pub use linear::weight_format::WeightFormat;
pub use loss::cross_entropy::{HeadLora, HeadLossArgs};
pub use op_clock::OpClock;
pub use ops::Ops;
pub use pages::kv_layout::{GroupKv, KvLayout};
pub use pages::move_pages::{
    HostCopier, LayerCuts, MappedBuffer, MoveWay, PageMover, PageMoves, PageTransfer,
};
pub use pages::page_layout::PageLayout;
pub use pages::paged_kv::{CHUNK_TILE_TOKENS, PagedKv};
pub use pages::row_format::RowFormat;
pub use pages::slot_kv::{ReadRope, SlotKv};
pub use pages::slot_layout::{SlotLayout, SlotNotes, SlotOffsets, SlotSide};
pub use pages::slot_rule::{SlotRule, SlotRuleKind};
pub use pages::slot_scorer::{HeadSlots, SlotScorer};
pub use quantise::Quantiser;
pub use tune_ops::TuneOps;
