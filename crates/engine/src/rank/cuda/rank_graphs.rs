//! Steps recorded when their form comes for the second time.

use std::collections::HashMap;

use terrace_device::cuda::CudaGraph;

use super::rank_form::RankForm;

#[derive(Default)]
pub(super) struct RankGraphs {
    forms: HashMap<RankForm, RecordedForm>,
    /// Counts uses.
    clock: u64,
}

struct RecordedForm {
    /// None after the first step of this form, which libraries need to choose their kernels.
    graph: Option<CudaGraph>,
    used: u64,
}

/// What is to be done with a step.
pub(super) enum Recorded<'a> {
    /// It is run as it is.
    First,
    /// It is recorded now.
    Record,
    Graph(&'a CudaGraph),
}

/// Forms that are known; a recorded one takes some hundred kilobytes.
const MOST: usize = 256;

impl RankGraphs {
    pub fn of(&mut self, form: &RankForm) -> Recorded<'_> {
        self.clock += 1;
        let used = self.clock;
        if !self.forms.contains_key(form) {
            if self.forms.len() == MOST
                && let Some(oldest) = self.forms.iter().min_by_key(|(_, it)| it.used)
            {
                let oldest = *oldest.0;
                self.forms.remove(&oldest);
            }
            self.forms.insert(*form, RecordedForm { graph: None, used });
            return Recorded::First;
        }
        let known = self.forms.get_mut(form).expect("it is known");
        known.used = used;
        known.graph.as_ref().map_or(Recorded::Record, Recorded::Graph)
    }

    pub fn keep(&mut self, form: &RankForm, graph: CudaGraph) -> &CudaGraph {
        let known = self.forms.get_mut(form).expect("it was asked for");
        known.graph.insert(graph)
    }
}
