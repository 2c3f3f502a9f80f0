//! Decoding steps recorded once, for the kinds of caches that most requests have and a few padded
//! sizes.

use terrace_device::cuda::CudaGraph;

use super::captured_kind::CapturedKind;
use super::executor_memory::{ArraySet, ExecutorMemory};
use super::padded_sizes::padded_sizes;
use super::step_form::StepForm;
use crate::error::Error;
use crate::executors::batch::Batch;

pub(super) struct DecodeGraphs {
    kinds: Vec<CapturedGraphs>,
}

struct CapturedGraphs {
    kind: CapturedKind,
    /// Ascending by size.
    graphs: Vec<(StepForm, CudaGraph)>,
}

impl DecodeGraphs {
    /// Records a graph for each kind and size. Each is run once without recording first, with all
    /// rows empty: libraries choose and set up their kernels then.
    pub fn record(
        memory: &mut ExecutorMemory,
        kinds: Vec<CapturedKind>,
        max_seqs: usize,
    ) -> Result<Self, Error> {
        let device = memory.device();
        let mut staging = memory.staging(&device)?;
        let mut recorded = Vec::new();
        for kind in kinds {
            let mut graphs = Vec::new();
            for size in padded_sizes(max_seqs) {
                let form = StepForm::decoding(&kind, size);
                staging.fill_empty(&form);
                staging.send(&form, memory.arrays_mut(ArraySet::Decoding));
                device.synchronize()?;
                memory.decode(&form);
                device.synchronize()?;
                let graph = device.capture(|| memory.decode(&form))?;
                graphs.push((form, graph));
            }
            recorded.push(CapturedGraphs { kind, graphs });
        }
        Ok(DecodeGraphs { kinds: recorded })
    }

    /// The graph for a batch of single rows, padded to at least `rows`, with its shape; `None` when
    /// there is none for such caches, or for so many.
    pub fn suiting(&self, batch: &Batch, rows: usize) -> Option<(&CudaGraph, &StepForm)> {
        let recorded = self.kinds.iter().find(|recorded| recorded.kind.suits(batch))?;
        let found = recorded.graphs.iter().find(|(form, _)| rows <= form.tokens);
        found.map(|(form, graph)| (graph, form))
    }
}
