//! The testkit's tiny model in engines of this machine's CPU.

use terrace_engine::{Generated, InferenceConfig, InferenceEngine, Precision};
use terrace_model::{Families, LoadedModel};
use terrace_testkit::TinyModel;

pub fn tiny() -> LoadedModel {
    // The weights stay mapped when the folder is gone.
    LoadedModel::open(&TinyModel::new().path(), &Families::known()).expect("a model")
}

/// In f32, on two threads.
pub fn config() -> InferenceConfig {
    InferenceConfig { dtype: Precision::Fp32, threads: Some(2), ..InferenceConfig::default() }
}

/// Steps until every queued request has finished.
pub fn finish(engine: &mut InferenceEngine) -> Vec<Generated> {
    let mut finished = Vec::new();
    while engine.unfinished() > 0 {
        finished.extend(engine.step());
    }
    finished
}
