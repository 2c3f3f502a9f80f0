//! What an executor is made of, and how large its steps can be.

use std::sync::Arc;

use terrace_device::{DType, Workspace};
use terrace_embedding::TableSet;
use terrace_kernels::{HstuStepSize, Ops, PageLayout};
use terrace_model::hstu::RankingModel;
use terrace_tiers::PageStore;

use super::step_input::StepInput;

pub(super) struct ExecutorParts {
    pub ops: Ops,
    pub model: RankingModel,
    pub tables: Arc<TableSet>,
    pub layout: PageLayout,
    pub store: PageStore,
    pub shape: RankShape,
}

/// Bounds fixed when the executor is made; all memory is taken from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankShape {
    pub max_step_tokens: usize,
    pub max_users: usize,
    pub max_history_tokens: usize,
    pub max_candidates: usize,
    pub pages: usize,
}

impl ExecutorParts {
    pub fn table_pages(&self) -> usize {
        self.shape.max_history_tokens.div_ceil(self.layout.page_tokens)
    }

    pub fn input(&self) -> StepInput {
        StepInput::new(&self.layout, self.table_pages(), self.shape.max_candidates)
    }

    /// Of the largest step, whose tokens may all be scored.
    pub fn workspace_bytes(&self) -> usize {
        let RankShape { max_step_tokens: tokens, max_users: seqs, .. } = self.shape;
        let size = HstuStepSize { tokens, seqs, table_pages: self.table_pages() };
        self.model.workspace_bytes(&self.ops, &self.layout, size, tokens)
            + Workspace::bytes_for(DType::F32, [tokens, self.model.outputs()])
    }
}
