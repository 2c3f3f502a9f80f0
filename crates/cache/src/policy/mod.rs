//! Eviction policies: which tokens a selective cache keeps.
//!
//! A policy is a rule as plain data ([`Rule`]); [`SlotTable`] carries it out for one sequence and
//! one layer, and is the specification of what a device does. A policy says nothing about bytes:
//! any of them goes with any [`SlotFormat`], except that some need the errors of a quantiser.
//!
//! A new policy is one file with an `ENTRY`, and one line in `policies.rs`; from outside it is
//! added with [`Policies::with`]. One that brings its own score writes [`KvPolicy::score`] and
//! nothing else: protection, grace, any buffer and the replay log come with the rule. It is code of
//! the host, so the CPU runs it and a GPU refuses it.

mod chunk_plan;
mod compat;
mod dense;
mod error;
mod h2o;
mod h2o_orig;
mod h2o_vlen;
mod kv_cache_options;
mod kv_cache_spec;
mod kv_policy;
mod lastrec;
mod own_score;
mod policies;
mod policy_args;
mod policy_entry;
mod qh2o;
mod qh2o_vlen;
mod replay_log;
mod rule;
mod rule_policy;
mod scored_options;
pub(crate) mod scoring;
mod slot_format;
mod slot_rule;
mod slot_shape;
mod slot_table;
mod smart_lastrec;
mod streamingllm;
mod text_segment;

pub use chunk_plan::{ChunkSizes, chunk_plan};
pub use compat::Compat;
pub use error::PolicyError;
pub use kv_cache_options::KvCacheOptions;
pub use kv_cache_spec::KvCacheSpec;
pub use kv_policy::KvPolicy;
pub use policies::Policies;
pub use policy_args::{ArgValue, PolicyArgs};
pub use policy_entry::PolicyEntry;
pub use replay_log::ReplayLog;
pub use rule::{KeyPositions, RecentRule, Rule, ScoredRule, Weighting};
pub use scored_options::ScoredOptions;
pub use slot_format::SlotFormat;
pub use slot_shape::SlotShape;
pub use slot_table::{Placement, SlotExtras, SlotTable, TableShape};
pub use terrace_kernels::HeadSlots;
pub use text_segment::{Opening, TextSegment, TokenText};
