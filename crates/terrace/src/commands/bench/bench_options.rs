//! What is measured, and how it is reported: shared by the benchmarks that run an engine.

use clap::Args;

use crate::options::{EngineOptions, ShapeOptions};

#[derive(Args, Clone, Debug)]
pub struct BenchOptions {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub shape: ShapeOptions,
    #[command(flatten)]
    pub engine: EngineOptions,
}

impl BenchOptions {
    /// How random weights are stored, where no model's are measured.
    pub fn random_weights(&self) -> Option<&'static str> {
        self.shape.shape.map(|_| self.shape.weights.name())
    }
}
