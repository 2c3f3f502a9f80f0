//! What one layer does with its queries, keys and values on the CPU.

use super::attention_args::AttentionArgs;
use super::paged_attention::paged_attention;
use crate::attention::attend_args::AttendArgs;
use crate::attention::live_heads::{HeadDims, live_heads};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::elementwise::{cast, rope};
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;

/// Elements of one token's live keys and values.
pub(crate) fn live_widths(layout: &PageLayout) -> [usize; 2] {
    [layout.key_dim, layout.value_dim].map(|dim| layout.kv_heads * layout.live_row(dim))
}

/// What [`AttendArgs`] says, one op after the other.
pub(crate) fn attend(ctx: &CpuCtx, args: AttendArgs<'_>, kv: &mut PagedKv<'_>) {
    assert_eq!(args.first_row, 0, "rows of dense caches are the first");
    assert!(args.rerotated.is_none(), "keys of dense caches keep their rotation");
    let AttendArgs { qkv, heads, angles, rope_style, layer, out, .. } = args;
    let ([tokens, _], layout) = (qkv.dims(), kv.layout);
    let PageLayout { kv_heads, key_dim, value_dim, .. } = layout;
    let dims = HeadDims { heads, kv_heads, key_dim, value_dim };
    let [mut query, mut key, value] = live_heads(ctx, qkv, dims, args.norms);
    rope::rope(ctx, query.reborrow(), angles, rope_style);
    rope::rope(ctx, key.reborrow(), angles, rope_style);
    let [live_k, live_v] = args.scratch.split_columns(live_widths(&layout));
    let (mut live_k, mut live_v) = (live_k.split_heads(kv_heads), live_v.split_heads(kv_heads));
    cast::cast(ctx, key.as_view(), live_k.reborrow());
    cast::cast(ctx, value.as_view(), live_v.reborrow());
    paged_attention(
        ctx,
        AttentionArgs {
            q: query.as_view(),
            row_kinds: args.row_kinds.first(tokens),
            live_k: live_k.as_view(),
            live_v: live_v.as_view(),
            kv,
            layer,
            scale: args.scale,
            window: args.window,
            out: out.split_heads(heads),
        },
    );
    kv.commit([live_k.as_view(), live_v.as_view()], layer);
}
