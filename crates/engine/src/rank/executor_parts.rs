//! What an executor is made of, and how large its steps can be.

use terrace_device::{DType, Device};
use terrace_kernels::{HstuStepSize, Ops, PageLayout};
use terrace_model::hstu::HstuModel;
use terrace_tiers::PageStore;

use super::item_search::ItemSearch;
use super::step_input::StepInput;
use super::step_tables::StepTables;
use crate::error::Error;

pub(super) struct ExecutorParts {
    pub ops: Ops,
    pub model: HstuModel,
    pub tables: StepTables,
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
    /// Context and items are embedded apart.
    pub has_streams: bool,
    pub pages: usize,
}

impl ExecutorParts {
    pub fn table_pages(&self) -> usize {
        self.shape.max_history_tokens.div_ceil(self.layout.page_tokens)
    }

    pub fn input(&self) -> StepInput {
        let positions = self.shape.has_times.then_some(self.shape.max_history_tokens);
        let (pages, candidates) = (self.table_pages(), self.shape.max_candidates);
        let on_gpu = !matches!(self.ops.device(), Device::Cpu);
        let context = self.shape.has_streams.then_some(self.model.layout.context);
        let brought = self.tables.brought();
        StepInput::new(&self.layout, pages, candidates, positions, on_gpu, context, brought)
    }

    /// Of what a step gives.
    pub fn out_bytes(&self) -> usize {
        self.shape.out_bytes(&self.model)
    }

    /// Of the largest step.
    pub fn workspace_bytes(&self) -> usize {
        self.shape.workspace_bytes(&self.ops, &self.layout, &self.model)
    }
}

impl RankShape {
    fn out_bytes(&self, model: &HstuModel) -> usize {
        DType::F32.bytes() * self.max_scored * model.outputs()
    }

    fn workspace_bytes(&self, ops: &Ops, layout: &PageLayout, model: &HstuModel) -> usize {
        let table_pages = self.max_history_tokens.div_ceil(layout.page_tokens);
        let size = HstuStepSize { tokens: self.max_step_tokens, seqs: self.max_users, table_pages };
        model.workspace_bytes(ops, layout, size, self.max_scored)
    }

    /// Whether steps of another checkpoint fit in the memory that was taken.
    pub fn check(
        &self,
        ops: &Ops,
        layout: &PageLayout,
        model: &HstuModel,
        [workspace, out]: [usize; 2],
    ) -> Result<(), Error> {
        let wanted = [self.workspace_bytes(ops, layout, model), self.out_bytes(model)];
        for (wanted, taken) in wanted.into_iter().zip([workspace, out]) {
            if taken < wanted {
                return Err(Error::Reload(format!(
                    "its steps need {wanted} bytes where {taken} were taken at the start: the \
                     prediction head is larger; restart the server"
                )));
            }
        }
        Ok(())
    }
}
