//! The heads of a step's live rows on the CPU: what attention over pages and over slots begin with.

use terrace_device::ViewMut;

use super::attend_args::HeadNorms;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::elementwise::rms_norm;

/// Heads and numbers of a head, of one layer.
pub(crate) struct HeadDims {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) key_dim: usize,
    pub(crate) value_dim: usize,
}

/// Queries, keys and values, `[tokens, heads, dim]` each, normalised and not yet rotated.
pub(crate) fn live_heads<'a>(
    ctx: &CpuCtx,
    qkv: ViewMut<'a>,
    dims: HeadDims,
    norms: HeadNorms<'_>,
) -> [ViewMut<'a>; 3] {
    let HeadDims { heads, kv_heads, key_dim, value_dim } = dims;
    let widths = [heads * key_dim, kv_heads * key_dim, kv_heads * value_dim];
    let [query, key, value] = qkv.split_columns(widths);
    let (mut query, mut key) = (query.split_heads(heads), key.split_heads(kv_heads));
    if let Some(norm) = norms.query {
        rms_norm::rms_norm_heads(ctx, query.reborrow(), norm.view(), norms.eps);
    }
    if let Some(norm) = norms.key {
        rms_norm::rms_norm_heads(ctx, key.reborrow(), norm.view(), norms.eps);
    }
    [query, key, value.split_heads(kv_heads)]
}
