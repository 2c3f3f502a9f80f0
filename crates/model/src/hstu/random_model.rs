//! A model whose weights mean nothing: for measurements.

use terrace_kernels::random::SplitMix;
use terrace_kernels::{BiasedWeight, Ops};

use super::hstu_config::{HstuConfig, HstuTask};
use super::hstu_files::TableTensors;
use super::hstu_model::{HstuModel, StreamMlps};
use super::layer_tensors::owned_matrix;
use super::mlp::Mlp;
use super::stack::HstuStack;
use crate::error::Error;

/// Scores of a candidate.
const OUTPUTS: usize = 8;

impl HstuModel {
    /// As a configuration says, with a position table; of a ranking model with a head of one hidden
    /// layer.
    pub fn random(ops: &Ops, config: &HstuConfig) -> Result<Self, Error> {
        let hidden = config.hidden_size;
        let positions = noise(config.max_history_tokens * hidden, 1.0, 1);
        let stack = HstuStack::random(ops, config.layer_spec(), config.num_layers)?;
        let layer = |rows: usize, columns: usize, seed: u64| -> Result<BiasedWeight, Error> {
            let numbers = noise(rows * columns, 1.0 / (columns as f32).sqrt(), seed);
            let weight = owned_matrix(&numbers, [rows, columns])?;
            Ok(BiasedWeight { weight, bias: None })
        };
        let head = match config.task {
            HstuTask::Retrieval => None,
            HstuTask::Ranking => {
                let head = vec![layer(hidden / 2, hidden, 2)?, layer(OUTPUTS, hidden / 2, 3)?];
                Some(Mlp::place(ops, head, config.head_activation())?)
            }
        };
        let (layout, scale) = (config.token_layout(), config.embedding_scale());
        let mlps = StreamMlps::default();
        HstuModel::place(ops, layout, scale, Some(&positions), mlps, stack, head)
    }

    /// So many rows for each feature of a configuration.
    pub fn random_tables(config: &HstuConfig, rows: usize) -> Result<Vec<TableTensors>, Error> {
        let table = |(seed, (name, dim)): (usize, (&str, usize))| -> Result<TableTensors, Error> {
            let numbers = noise(rows * dim, 1.0 / (dim as f32).sqrt(), 10 + seed as u64);
            let rows = owned_matrix(&numbers, [rows, dim])?;
            Ok(TableTensors { name: name.to_owned(), rows, keys: None })
        };
        config.tables().enumerate().map(table).collect()
    }
}

/// Numbers between `-width` and `width`.
fn noise(count: usize, width: f32, seed: u64) -> Vec<f32> {
    SplitMix::new(seed).numbers(count).into_iter().map(|number| number * width).collect()
}
