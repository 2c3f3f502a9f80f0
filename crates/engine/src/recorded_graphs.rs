//! Steps recorded as CUDA graphs when their form comes for the second time.

use std::collections::HashMap;
use std::hash::Hash;

use terrace_device::cuda::CudaGraph;

/// By what makes steps alike: those of one form launch the same kernels over the same memory.
pub(crate) struct RecordedGraphs<F> {
    forms: HashMap<F, RecordedForm>,
    /// Counts uses.
    clock: u64,
}

struct RecordedForm {
    /// None after the first step of this form, which libraries need to choose their kernels.
    graph: Option<CudaGraph>,
    used: u64,
}

/// What is to be done with a step.
pub(crate) enum Recorded<'a> {
    /// It is run as it is.
    First,
    /// It is recorded now.
    Record,
    Graph(&'a CudaGraph),
}

/// Forms that are known; a recorded one takes some hundred kilobytes.
const MOST: usize = 256;

impl<F> Default for RecordedGraphs<F> {
    fn default() -> Self {
        RecordedGraphs { forms: HashMap::new(), clock: 0 }
    }
}

impl<F: Hash + Eq + Clone> RecordedGraphs<F> {
    pub fn of(&mut self, form: &F) -> Recorded<'_> {
        self.clock += 1;
        let used = self.clock;
        if !self.forms.contains_key(form) {
            if self.forms.len() == MOST
                && let Some(oldest) = self.forms.iter().min_by_key(|(_, it)| it.used)
            {
                let oldest = oldest.0.clone();
                self.forms.remove(&oldest);
            }
            self.forms.insert(form.clone(), RecordedForm { graph: None, used });
            return Recorded::First;
        }
        let known = self.forms.get_mut(form).expect("it is known");
        known.used = used;
        known.graph.as_ref().map_or(Recorded::Record, Recorded::Graph)
    }

    pub fn keep(&mut self, form: &F, graph: CudaGraph) -> &CudaGraph {
        let known = self.forms.get_mut(form).expect("it was asked for");
        known.graph.insert(graph)
    }
}
