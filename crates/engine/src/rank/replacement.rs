//! A checkpoint on its way into an engine.

use super::loaded_model::LoadedModel;
use super::rank_front::RankFront;
use super::reloaded::ModelChange;

pub struct Replacement {
    pub(super) loaded: LoadedModel,
    pub(super) front: RankFront,
    pub(super) change: ModelChange,
}
