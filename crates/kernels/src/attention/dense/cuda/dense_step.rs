//! What every kernel of dense attention knows of a step: the twin of `dense_step.cuh`.

use crate::attention::attend_args::AttendArgs;
use crate::cuda::{LayerPages, extent, kernel_params};
use crate::pages::paged_kv::PagedKv;

kernel_params! {
    pub(super) struct DenseStep: 112 bytes {
        layer: LayerPages,
        q: u64,
        block_tables: u64,
        past_tokens: u64,
        row_seqs: u64,
        live_starts: u64,
        out: u64,
        table_stride: u32,
        group: u32,
        window: u32,
        head_dim: u32,
        out_type: u32,
        scale: f32,
    }
}

impl DenseStep {
    /// `scale`: the softmax's, as the kernel takes it.
    pub(super) fn new(args: &AttendArgs<'_>, kv: &PagedKv<'_>, scale: f32) -> Self {
        DenseStep {
            layer: LayerPages::new(kv, args.layer),
            q: args.scratch.device_address(),
            block_tables: kv.block_tables.device_address(),
            past_tokens: kv.past_tokens.device_address(),
            row_seqs: row_seqs(kv),
            live_starts: kv.live_starts.device_address(),
            out: args.out.device_address(),
            table_stride: extent(kv.block_tables.row_stride()),
            group: args.group(kv.layout.kv_heads),
            window: args.window_or_zero(),
            head_dim: extent(kv.layout.key_dim),
            out_type: args.out_type(),
            scale,
        }
    }

    /// The same where row `i` is the next token of sequence `i`.
    pub(super) fn of_singles(self) -> Self {
        DenseStep { row_seqs: 0, ..self }
    }
}

/// The sequence of each row, or 0 where row `i` is sequence `i`'s: then -1 past tokens mean none.
fn row_seqs(kv: &PagedKv<'_>) -> u64 {
    let [tokens] = kv.commit_slots.dims();
    if kv.singles == tokens {
        return 0;
    }
    assert_eq!(kv.row_seqs.dims(), [tokens], "row_seqs");
    kv.row_seqs.device_address()
}
