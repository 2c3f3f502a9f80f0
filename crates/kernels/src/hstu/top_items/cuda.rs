//! Launches `item_scores.cu`, `exclude_items.cu` and `select_items.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::TopItemsArgs;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct TopItemsKernels {
    score: TypedKernel<ItemScoresParams>,
    exclude: TypedKernel<ExcludeItemsParams>,
    select: TypedKernel<SelectItemsParams>,
}

kernel_params! {
    /// Twin of `ItemScoresParams` in `item_scores.cu`.
    struct ItemScoresParams: 56 bytes {
        queries: u64,
        items: u64,
        item_scale: u64,
        out: u64,
        query_count: u32,
        item_count: u32,
        dim: u32,
        query_stride: u32,
        item_stride: u32,
        out_stride: u32,
    }
}

kernel_params! {
    /// Twin of `ExcludeItemsParams` in `exclude_items.cu`.
    struct ExcludeItemsParams: 32 bytes {
        scores: u64,
        starts: u64,
        rows: u64,
        item_count: u32,
        stride: u32,
    }
}

kernel_params! {
    /// Twin of `SelectItemsParams` in `select_items.cu`.
    struct SelectItemsParams: 56 bytes {
        scores: u64,
        items: u64,
        out_scores: u64,
        out_items: u64,
        count: u32,
        segment: u32,
        most: u32,
        score_stride: u32,
        out_stride: u32,
        unused: u32,
    }
}

/// Items of a block's round, as in `item_scores.cu`, and blocks that share all of them.
const GROUP_ITEMS: usize = 32;
const SCORE_BLOCKS: usize = 2048;
/// Blocks that leave items of one query out.
const EXCLUDE_BLOCKS: usize = 16;
/// Scores of a block that selects.
const SEGMENT: usize = 32 << 10;

/// Bytes that [`TopItemsKernels::top_items`] works in.
pub(crate) fn scratch_bytes(items: usize, most: usize) -> usize {
    let found = items.div_ceil(SEGMENT) * most;
    TopItemsArgs::QUERIES
        * (items * size_of::<f32>() + found * (size_of::<f32>() + size_of::<i32>()))
}

impl TopItemsKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(TopItemsKernels {
            score: TypedKernel::load(device, "item_scores", "f32")?,
            exclude: TypedKernel::load(device, "exclude_items", "f32")?,
            select: TypedKernel::load(device, "select_items", "f32")?,
        })
    }

    pub(crate) fn top_items(&self, mut args: TopItemsArgs<'_>) {
        let [queries, items, dim, most] = args.check();
        let segments = items.div_ceil(SEGMENT);
        let found = segments * most;
        let widths = [items, found, found].map(|width| queries * width * size_of::<f32>());
        let [scores, found_scores, found_rows] = parts(args.scratch.reborrow(), widths);
        let params = ItemScoresParams {
            queries: args.queries.device_address(),
            items: args.items.device_address(),
            item_scale: args.item_scale.map_or(0, |scale| scale.view().device_address()),
            out: scores,
            query_count: extent(queries),
            item_count: extent(items),
            dim: extent(dim),
            query_stride: extent(args.queries.row_stride()),
            item_stride: extent(args.items.row_stride()),
            out_stride: extent(items),
        };
        let blocks = items.div_ceil(GROUP_ITEMS).min(SCORE_BLOCKS);
        // SAFETY: the shapes were just checked, and the scratch is large enough.
        unsafe { self.score.launch([blocks, 1, 1], 256, &params) };
        let params = ExcludeItemsParams {
            scores,
            starts: args.excluded_starts.device_address(),
            rows: args.excluded.device_address(),
            item_count: extent(items),
            stride: extent(items),
        };
        // SAFETY: as above; the kernel checks the rows, and that the starts are those of
        // `excluded` is the caller's promise.
        unsafe { self.exclude.launch([EXCLUDE_BLOCKS, queries, 1], 256, &params) };
        let first = SelectItemsParams {
            scores,
            items: 0,
            out_scores: found_scores,
            out_items: found_rows,
            count: extent(items),
            segment: extent(SEGMENT),
            most: extent(most),
            score_stride: extent(items),
            out_stride: extent(found),
            unused: 0,
        };
        let last = SelectItemsParams {
            out_scores: args.scores.device_address(),
            out_items: args.rows.device_address(),
            out_stride: extent(args.scores.row_stride()),
            ..first
        };
        assert_eq!(args.scores.row_stride(), args.rows.row_stride(), "results of top_items");
        if segments == 1 {
            // SAFETY: as above.
            unsafe { self.select.launch([1, queries, 1], 1024, &last) };
            return;
        }
        let last = SelectItemsParams {
            scores: found_scores,
            items: found_rows,
            count: extent(found),
            segment: extent(found),
            score_stride: extent(found),
            ..last
        };
        // SAFETY: as above.
        unsafe { self.select.launch([segments, queries, 1], 1024, &first) };
        // SAFETY: as above.
        unsafe { self.select.launch([1, queries, 1], 1024, &last) };
    }
}

/// The addresses of parts of some bytes.
fn parts(scratch: ViewMut<'_>, widths: [usize; 3]) -> [u64; 3] {
    assert_eq!(scratch.dtype(), DType::U8, "scratch of top_items");
    let (held, wanted) = (scratch.shape().count(), widths.iter().sum::<usize>());
    assert!(wanted <= held, "scratch of top_items: {wanted} of {held} bytes");
    let start = scratch.device_address();
    [0, widths[0] as u64, (widths[0] + widths[1]) as u64].map(|before| start + before)
}
