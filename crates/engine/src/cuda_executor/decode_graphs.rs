//! Decoding steps recorded once, for the kinds of caches that most requests have and a few padded
//! sizes.

use terrace_cache::KvGroup;
use terrace_device::cuda::CudaGraph;

use super::padded_sizes::padded_sizes;
use super::step_form::StepForm;
use super::step_memory::{Home, StepMemory};
use crate::batch::Batch;
use crate::error::Error;

/// A kind of cache whose decoding steps are recorded.
#[derive(Clone, Debug)]
pub struct RecordedKind {
    pub groups: Vec<KvGroup>,
    /// Pages of the longest sequence in each group.
    pub table_pages: Vec<usize>,
    /// Whether protected keys turn on as others leave.
    pub turns_keys: bool,
    /// Pairs of numbers that turn when keys are read; 0 where they have turned before.
    pub read_pairs: usize,
}

impl RecordedKind {
    /// The shape of a step of one token for each of so many sequences.
    pub(super) fn form(&self, seqs: usize) -> StepForm {
        StepForm::decoding(self, seqs)
    }

    /// Whether the batch is one part of this kind that fits into such a step.
    fn suits(&self, batch: &Batch) -> bool {
        let [part] = batch.parts() else { return false };
        let alike = |(index, group): (usize, &KvGroup)| {
            part.layout(index) == group.layout
                && part.turned_positions(index).is_empty() != self.turns_keys
                && part.block_tables(index).1 <= self.table_pages[index]
        };
        let single = part.singles() == part.seqs();
        single && part.groups() == self.groups.len() && self.groups.iter().enumerate().all(alike)
    }
}

pub(super) struct DecodeGraphs {
    kinds: Vec<RecordedGraphs>,
}

struct RecordedGraphs {
    kind: RecordedKind,
    /// Ascending by size.
    graphs: Vec<(StepForm, CudaGraph)>,
}

impl DecodeGraphs {
    /// Records a graph for each kind and size. Each is run once without recording first, with all
    /// rows empty: libraries choose and set up their kernels then.
    pub fn record(
        memory: &mut StepMemory,
        kinds: Vec<RecordedKind>,
        max_seqs: usize,
    ) -> Result<Self, Error> {
        let device = memory.device();
        let mut staging = memory.staging(&device)?;
        let mut recorded = Vec::new();
        for kind in kinds {
            let mut graphs = Vec::new();
            for size in padded_sizes(max_seqs) {
                let form = kind.form(size);
                staging.fill_empty(&form);
                staging.send(&form, memory.arrays_mut(Home::Decoding));
                device.synchronize()?;
                memory.decode(&form);
                device.synchronize()?;
                let graph = device.capture(|| memory.decode(&form))?;
                graphs.push((form, graph));
            }
            recorded.push(RecordedGraphs { kind, graphs });
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
