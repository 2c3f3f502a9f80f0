//! What an executor is made of, and how large its steps can be.

use std::sync::Arc;

use terrace_device::DType;
use terrace_embedding::TableSet;
use terrace_kernels::{HstuStepSize, Ops, PageLayout};
use terrace_model::hstu::HstuModel;
use terrace_tiers::PageStore;

use super::item_search::ItemSearch;
use super::step_input::StepInput;

pub(super) struct ExecutorParts {
    pub ops: Ops,
    pub model: HstuModel,
    pub tables: Arc<TableSet>,
    /// Of a model that retrieves.
    pub search: Option<ItemSearch>,
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
    /// Of a user in a step.
    pub max_candidates: usize,
    /// Of all users in a step.
    pub max_scored: usize,
    pub has_times: bool,
    pub pages: usize,
}

impl ExecutorParts {
    pub fn table_pages(&self) -> usize {
        self.shape.max_history_tokens.div_ceil(self.layout.page_tokens)
    }

    pub fn input(&self) -> StepInput {
        let positions = self.shape.has_times.then_some(self.shape.max_history_tokens);
        StepInput::new(&self.layout, self.table_pages(), self.shape.max_candidates, positions)
    }

    /// Of what a step gives.
    pub fn out_bytes(&self) -> usize {
        DType::F32.bytes() * self.shape.max_scored * self.model.outputs()
    }

    /// Of the largest step.
    pub fn workspace_bytes(&self) -> usize {
        let RankShape { max_step_tokens: tokens, max_users: seqs, max_scored, .. } = self.shape;
        let size = HstuStepSize { tokens, seqs, table_pages: self.table_pages() };
        self.model.workspace_bytes(&self.ops, &self.layout, size, max_scored)
    }
}
