//! Dense attention on the CPU: the arguments checked, cut into tasks and run.

use terrace_device::SharedRows;

use super::attention_args::AttentionArgs;
use super::cuts::Cuts;
use super::layer::Layer;
use super::simd;
use super::split_kv::SplitKv;
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
use crate::pages::page_layout::PageLayout;

pub(crate) fn paged_attention(ctx: &CpuCtx, mut args: AttentionArgs<'_>) {
    check(&args);
    let cuts = Cuts::new(ctx, &args);
    let seqs = args.kv.live_starts.as_slice::<i32>().len() - 1;
    let tiles = (0..seqs).map(|seq| cuts.tiles_of(seq)).sum();
    let PageLayout { kv_heads, value_dim, .. } = args.kv.layout;
    let out = SharedRows::new(&mut args.out);
    let AttentionArgs { q, live_k, live_v, kv, layer, scale, window, .. } = args;
    let live = [live_k, live_v];
    let layer = Layer {
        ctx,
        cuts,
        tiles,
        kv_heads,
        value_dim,
        q,
        live,
        kv,
        layer,
        scale,
        window,
        out: &out,
    };
    match SplitKv::new(&layer) {
        Some(cuts) => cuts.attend(&layer),
        None => ctx.run_with_scratch(layer.tasks(), &|scratch, task| {
            let (tile, of_prompt) = layer.tile(task, scratch);
            layer.attend(tile, of_prompt);
        }),
    }
}

const _: () = assert!(
    simd::work_floats(CpuCtx::MAX_GROUP_HEADS, CpuCtx::MAX_HEAD_DIM, CpuCtx::MAX_HEAD_DIM)
        <= SCRATCH_FLOATS,
    "the largest tile fits into a worker's scratch"
);

fn check(args: &AttentionArgs<'_>) {
    let layout = args.kv.layout;
    let [tokens, heads, _] = args.q.dims();
    assert!(0 < heads && heads.is_multiple_of(layout.kv_heads), "{heads} query heads");
    assert_eq!(args.q.dims(), [tokens, heads, layout.key_dim], "q of attention");
    let live_dims = |dim| [tokens, layout.kv_heads, layout.live_row(dim)];
    assert_eq!(args.live_k.dims(), live_dims(layout.key_dim), "live keys");
    assert_eq!(args.live_v.dims(), live_dims(layout.value_dim), "live values");
    assert_eq!(args.live_k.dtype(), layout.dtype, "live keys have page dtype");
    assert_eq!(args.live_v.dtype(), layout.dtype, "live values have page dtype");
    assert_eq!(args.out.dims(), [tokens, heads, layout.value_dim], "out of attention");
    assert!(args.window != Some(0), "a window of 0 hides every key");
    let widest = layout.key_dim.max(layout.value_dim);
    assert!(widest <= CpuCtx::MAX_HEAD_DIM, "heads of {widest}, at most {}", CpuCtx::MAX_HEAD_DIM);
    let group = heads / layout.kv_heads;
    assert!(group <= CpuCtx::MAX_GROUP_HEADS, "{group} heads share one kv head");
    args.kv.assert_readable(tokens);
    args.row_kinds.check(tokens);
}
