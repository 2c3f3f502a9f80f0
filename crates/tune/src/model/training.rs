//! What of a model is trained.

use terrace_model::LoraKind;

/// What of a model is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Training {
    /// Every weight.
    Full,
    /// Branches of low rank beside some of the weights.
    Lora(LoraOptions),
}

/// Where the weights of layers are while nothing is computed with them, and the gradients of those
/// that are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightsAt {
    /// Where they are computed with.
    Device,
    /// In memory of the host: a device with memory of its own has those of one row of layers at a
    /// time.
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoraOptions {
    pub rank: usize,
    pub alpha: f32,
    pub kind: LoraKind,
    pub targets: LoraTargets,
    /// Share of a branch's inputs that are left out in training, each step others.
    pub dropout: f32,
    /// Of the branches' first matrices; the second ones begin with zeros.
    pub seed: u64,
}

impl LoraOptions {
    pub fn scale(&self) -> f32 {
        self.alpha / self.rank as f32
    }
}

/// Which products have a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoraTargets {
    pub query: bool,
    pub key: bool,
    pub value: bool,
    /// Attention's output.
    pub projection: bool,
    /// All three products of the feed-forward unit.
    pub mlp: bool,
    pub head: bool,
}

impl LoraTargets {
    pub const QUERY_VALUE: LoraTargets = LoraTargets {
        query: true,
        key: false,
        value: true,
        projection: false,
        mlp: false,
        head: false,
    };

    pub const ALL: LoraTargets = LoraTargets {
        query: true,
        key: true,
        value: true,
        projection: true,
        mlp: true,
        head: true,
    };
}
