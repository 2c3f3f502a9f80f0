//! All that a run consists of.

use terrace_cache::policy::KvCacheSpec;
use terrace_kernels::Ops;
use terrace_model::DecoderSpec;

use super::generate::Generate;
use super::memory_snapshots::MemorySnapshots;
use super::run_events::RunEvents;
use super::run_options::RunOptions;
use super::run_state::RunStates;
use super::save_model::SaveModel;
use crate::data::{CaseSource, Split};
use crate::gradient_options::GradientOptions;
use crate::model::TunedModel;
use crate::optimiser::OptimiserOptions;

pub struct Trainer<'a> {
    /// One for each rank.
    pub ranks: &'a [Ops],
    pub model: TunedModel,
    /// The same model for each rank behind the first, where ranks have devices with memory of
    /// their own; none where they share it.
    pub replicas: Vec<TunedModel>,
    pub spec: &'a DecoderSpec,
    pub cache: &'a KvCacheSpec,
    pub gradients: GradientOptions,
    pub optimiser: OptimiserOptions,
    pub options: RunOptions,
    pub source: &'a dyn CaseSource,
    pub split: &'a Split,
    /// Of all cases.
    pub lengths: &'a [usize],
    pub states: RunStates,
    /// None where memory is not recorded.
    pub snapshots: Option<MemorySnapshots>,
    pub save: &'a dyn SaveModel,
    /// What answers are generated with in validation, if they are.
    pub generate: Option<&'a mut dyn Generate>,
    pub events: &'a mut dyn RunEvents,
}
