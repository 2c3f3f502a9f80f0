//! All that a run consists of.

use terrace_cache::policy::KvCacheSpec;
use terrace_kernels::Ops;
use terrace_model::DecoderSpec;

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
    pub save: &'a dyn SaveModel,
    pub events: &'a mut dyn RunEvents,
}
