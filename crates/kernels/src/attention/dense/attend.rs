//! What one layer does with its queries, keys and values on the CPU.

use super::attention_args::AttentionArgs;
use super::paged_attention::paged_attention;
use crate::attention::attend_args::AttendArgs;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::elementwise::{cast, rms_norm, rope};
use crate::pages::commit;
use crate::pages::paged_kv::PageLayout;

/// Elements of one token's live keys and values.
pub(crate) fn live_widths(layout: &PageLayout) -> [usize; 2] {
    [layout.key_dim, layout.value_dim].map(|dim| layout.kv_heads * layout.live_row(dim))
}

/// What [`AttendArgs`] says, one op after the other.
pub(crate) fn attend(ctx: &CpuCtx, args: AttendArgs<'_, '_>) {
    let widths = args.widths();
    let AttendArgs { qkv, heads, angles, rope_style, norm_eps, kv, layer, out, .. } = args;
    let kv_heads = kv.layout.kv_heads;
    let [query, key, value] = qkv.split_columns(widths);
    let (mut query, mut key) = (query.split_heads(heads), key.split_heads(kv_heads));
    if let Some(norm) = args.query_norm {
        rms_norm::rms_norm_heads(ctx, query.reborrow(), norm.view(), norm_eps);
    }
    if let Some(norm) = args.key_norm {
        rms_norm::rms_norm_heads(ctx, key.reborrow(), norm.view(), norm_eps);
    }
    rope::rope(ctx, query.reborrow(), angles, rope_style);
    rope::rope(ctx, key.reborrow(), angles, rope_style);
    let [live_k, live_v] = args.scratch.split_columns(live_widths(&kv.layout));
    let (mut live_k, mut live_v) = (live_k.split_heads(kv_heads), live_v.split_heads(kv_heads));
    cast::cast(ctx, key.as_view(), live_k.reborrow());
    cast::cast(ctx, value.as_view().split_heads(kv_heads), live_v.reborrow());
    paged_attention(
        ctx,
        AttentionArgs {
            q: query.as_view(),
            row_kinds: args.row_kinds,
            live_k: live_k.as_view(),
            live_v: live_v.as_view(),
            kv,
            layer,
            scale: args.scale,
            window: args.window,
            out: out.split_heads(heads),
        },
    );
    commit::commit(live_k.as_view(), live_v.as_view(), kv, layer);
}
