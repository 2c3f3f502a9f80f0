//! A kind of cache whose decode steps are captured as CUDA graphs.

use terrace_cache::KvGroup;
use terrace_model::LayerLocation;

use crate::executors::batch::Batch;

#[derive(Clone, Debug)]
pub struct CapturedKind {
    pub groups: Vec<KvGroup>,
    /// Pages of the longest sequence in each group.
    pub table_pages: Vec<usize>,
    /// Whether protected keys turn on as others leave.
    pub rerotates_keys: bool,
    /// Pairs of numbers that turn when keys are read; 0 where keys are stored rotated.
    pub read_pairs: usize,
}

impl CapturedKind {
    /// Whether the batch is one segment of this kind that fits into such a step.
    pub(super) fn suits(&self, batch: &Batch) -> bool {
        let [segment] = batch.segments() else { return false };
        let alike = |(index, group): (usize, &KvGroup)| {
            let in_group = |(layer, of_model): (usize, &usize)| {
                segment.locations()[*of_model] == LayerLocation { group: index, layer }
            };
            segment.layout(index) == group.layout
                && group.layers.iter().enumerate().all(in_group)
                && segment.rerotated_positions(index).is_empty() != self.rerotates_keys
                && segment.block_tables(index).1 <= self.table_pages[index]
        };
        let single = segment.singles() == segment.seqs();
        single && segment.groups() == self.groups.len() && self.groups.iter().enumerate().all(alike)
    }
}
