//! Ranking and retrieval: scores of candidates, and items, after users' histories, whose keys and
//! values are kept by user.
//!
//! The same shape as generation: requests come in as data, a [`RankScheduler`] decides what a step
//! computes, a [`RankExecutor`] computes it, and the engine owns both on one thread. What does not
//! need the engine is done by who asks: ids become rows in [`RankFront`], of the model's own tables
//! or of a parameter server's.

mod chunk_result;
mod cpu_rank_executor;
mod cuda;
mod engine_loop;
mod executor_parts;
mod generations;
mod item_search;
mod job_rows;
mod loaded_model;
mod model_identity;
mod rank_command;
mod rank_config;
mod rank_engine;
mod rank_error;
mod rank_executor;
mod rank_front;
mod rank_handle;
mod rank_job;
mod rank_output;
mod rank_plan;
mod rank_request;
mod rank_scheduler;
mod rank_setup;
mod rank_source;
mod rank_tables;
mod rank_trace;
mod reload;
mod reloaded;
mod removals;
mod replacement;
mod retrieve_request;
mod scored_row;
mod served_features;
mod step_input;
mod step_tables;
mod truncation;
mod user_tiers;

pub use chunk_result::ChunkResult;
pub use cpu_rank_executor::CpuRankExecutor;
pub use job_rows::{FetchedRows, JobRows};
pub use rank_command::UserCacheInfo;
pub use rank_config::RankConfig;
pub use rank_engine::{RankEngine, RankEvents, RankStats, RankTiers};
pub use rank_error::RankError;
pub use rank_executor::RankExecutor;
pub use rank_front::RankFront;
pub use rank_handle::RankHandle;
pub use rank_job::{JobId, JobTimes, RankJob, RankJobs, WantedItems};
pub use rank_output::{RankOutput, StageTimes};
pub use rank_plan::{RankChunk, RankPlan};
pub use rank_request::RankRequest;
pub use rank_scheduler::{RankScheduler, SchedulerLimits};
pub use rank_setup::RankSetup;
pub use rank_source::RankSource;
pub use rank_trace::LayerTimes;
pub use reloaded::{ModelChange, Reloaded};
pub use removals::{Removal, RemovalId, Removed, RemovedRecords};
pub use retrieve_request::{RetrieveOutput, RetrieveRequest, RetrievedItem};
pub use scored_row::ScoredRow;
pub use served_features::ServedFeatures;
pub use truncation::Truncate;
pub use user_tiers::UserTierCounts;

pub use terrace_cache::users::{CachedSpan, UserKey};
