//! Decoding steps recorded once, for a few padded sizes.

use terrace_device::cuda::CudaGraph;

use super::padded_sizes::padded_sizes;
use super::step_memory::StepMemory;
use crate::error::Error;

pub(super) struct DecodeGraphs {
    /// Ascending by size.
    graphs: Vec<(usize, CudaGraph)>,
}

impl DecodeGraphs {
    /// Records a graph for each size. Each is run once without recording first, with all rows
    /// empty: libraries choose and set up their kernels then.
    pub fn record(memory: &mut StepMemory, max_seqs: usize) -> Result<Self, Error> {
        let device = memory.device();
        let mut staging = memory.staging(&device)?;
        let mut graphs = Vec::new();
        for size in padded_sizes(max_seqs) {
            memory.clear_decoding(size, &mut staging)?;
            memory.decode(size);
            device.synchronize()?;
            graphs.push((size, device.capture(|| memory.decode(size))?));
        }
        Ok(DecodeGraphs { graphs })
    }

    /// The graph for so many sequences, with its size; `None` when there are more than any has.
    pub fn for_seqs(&self, seqs: usize) -> Option<(&CudaGraph, usize)> {
        let found = self.graphs.iter().find(|(size, _)| seqs <= *size);
        found.map(|(size, graph)| (graph, *size))
    }
}
