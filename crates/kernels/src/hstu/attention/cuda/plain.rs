//! Launches `hstu_attention_plain.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::page_side::{LayerSides, PageSide, page_kind};
use super::row_factors::row_factors;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;
use crate::hstu::attention::attend_args::{AttendedRows, HstuAttendArgs, HstuKv};
use crate::hstu::attention::relative_bias::RelativeBias;

pub(super) struct PlainKernel {
    kernel: TypedKernel<HstuPlainParams>,
}

kernel_params! {
    /// Twin of `HstuBias` in `hstu_attention_plain.cu`.
    struct HstuBias: 56 bytes {
        by_position: u64,
        by_time: u64,
        edges: u64,
        key_times: u64,
        row_times: u64,
        middle: u32,
        edge_count: u32,
        times_stride: u32,
        unused: u32,
    }
}

kernel_params! {
    /// Twin of `HstuPlainParams` in `hstu_attention_plain.cu`.
    struct HstuPlainParams: 304 bytes {
        q: u64,
        out: u64,
        keys: PageSide,
        values: PageSide,
        live_keys: PageSide,
        live_values: PageSide,
        block_tables: u64,
        live_tables: u64,
        row_seqs: u64,
        past_tokens: u64,
        live_starts: u64,
        history_rows: u64,
        spans: u64,
        row_factors: u64,
        bias: HstuBias,
        q_stride: u32,
        out_stride: u32,
        table_pages: u32,
        live_table_pages: u32,
        page_kind: u32,
        activates: u32,
        alpha: f32,
        factor: f32,
        only_candidates: u32,
        unused: u32,
    }
}

const THREADS: usize = 128;

impl PlainKernel {
    /// Widest head of keys and of values.
    pub(super) const MAX_HEAD_DIM: usize = 256;

    pub(super) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "hstu_attention_plain", activation.name())?;
        Ok(PlainKernel { kernel })
    }

    /// All rows, whose keys and values are in their slots.
    pub(super) fn launch(
        &self,
        args: &HstuAttendArgs<'_>,
        kv: &HstuKv<'_>,
        kept: LayerSides,
        live: LayerSides,
    ) {
        let ([tokens, _], heads) = (args.q.dims(), kv.layout.kv_heads);
        let (row_factors, factor) = row_factors(args.row_scale);
        let [seqs, _] = kv.block_tables.dims();
        let params = HstuPlainParams {
            q: args.q.device_address(),
            out: args.out.device_address(),
            keys: kept.keys,
            values: kept.values,
            live_keys: live.keys,
            live_values: live.values,
            block_tables: kv.block_tables.device_address(),
            live_tables: kv.live_tables.device_address(),
            row_seqs: kv.row_seqs.device_address(),
            past_tokens: kv.past_tokens.device_address(),
            live_starts: kv.live_starts.device_address(),
            history_rows: kv.history_rows.device_address(),
            spans: kv.spans.device_address(),
            row_factors,
            bias: args
                .bias
                .as_ref()
                .map_or(HstuBias::NONE, |bias| HstuBias::new(bias, seqs, tokens)),
            q_stride: extent(args.q.row_stride()),
            out_stride: extent(args.out.row_stride()),
            table_pages: extent(kv.block_tables.row_stride()),
            live_table_pages: extent(kv.live_tables.row_stride()),
            page_kind: page_kind(kv.layout.dtype),
            activates: u32::from(args.activates),
            alpha: args.scale,
            factor,
            only_candidates: u32::from(args.rows == AttendedRows::Candidates),
            unused: 0,
        };
        // SAFETY: shapes were checked by the caller; tables, spans and pages are as `HstuKv`
        // promises, and the step's own keys and values were written by a launch before.
        unsafe { self.kernel.launch([tokens, heads, 1], THREADS, &params) };
    }
}

impl HstuBias {
    const NONE: HstuBias = HstuBias {
        by_position: 0,
        by_time: 0,
        edges: 0,
        key_times: 0,
        row_times: 0,
        middle: 0,
        edge_count: 0,
        times_stride: 0,
        unused: 0,
    };

    fn new(bias: &RelativeBias<'_>, seqs: usize, tokens: usize) -> Self {
        let (edges, [timed_seqs, _]) = (bias.buckets.edges(), bias.key_times.dims());
        assert_eq!((bias.row_times.dims(), timed_seqs), ([tokens], seqs), "times of a bias");
        let types = [bias.row_times.dtype(), bias.key_times.dtype()];
        assert_eq!(types, [DType::I64; 2], "types of times");
        let by_position = bias.by_position.view();
        let [edge_count] = edges.dims();
        assert!(edge_count < bias.by_time.view().shape().count(), "a weight for each bucket");
        HstuBias {
            by_position: by_position.device_address(),
            by_time: bias.by_time.view().device_address(),
            edges: edges.device_address(),
            key_times: bias.key_times.device_address(),
            row_times: bias.row_times.device_address(),
            middle: extent(by_position.shape().count() / 2),
            edge_count: extent(edge_count),
            times_stride: extent(bias.key_times.row_stride()),
            unused: 0,
        }
    }
}
