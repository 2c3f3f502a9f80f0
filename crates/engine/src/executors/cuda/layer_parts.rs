//! How the pages that a step waits for come: the first layers first.
//!
//! Such a step has one chunk, so its batch is one segment.

use std::ops::Range;

use terrace_kernels::{KvLayout, LayerCuts};

use crate::executors::batch::{Batch, Segment};

/// The parts of a page, in their order.
pub(super) fn parts(batch: &Batch, page_bytes: usize) -> Vec<Range<usize>> {
    match only_segment(batch).layout(0) {
        layout @ KvLayout::Dense(_) => {
            let layers = layout.layers();
            LayerCuts::Graded.parts(page_bytes, layout.layer_bytes(0..1).len(), layers)
        }
        KvLayout::Slots(_) => LayerCuts::Whole.parts(page_bytes, page_bytes, 1),
    }
}

/// Whether a layer needs its own bytes alone.
pub(super) fn is_dense(batch: &Batch) -> bool {
    matches!(only_segment(batch).layout(0), KvLayout::Dense(_))
}

/// The first bytes of each page, up to those of a layer of the model.
pub(super) fn bytes_until(batch: &Batch, layer: usize) -> usize {
    let segment = only_segment(batch);
    let location = segment.locations()[layer];
    segment.layout(location.group).layer_bytes(0..location.layer + 1).end
}

fn only_segment(batch: &Batch) -> &Segment {
    let [segment] = batch.segments() else {
        panic!("{} segments in a step that waits for pages", batch.segments().len());
    };
    segment
}
