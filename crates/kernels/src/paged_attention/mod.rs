//! Attention of live rows over the past slots of their sequence and over each other.
//!
//! q: f32 `[tokens, heads, key_dim]` · live_k, live_v: page dtype `[tokens, kv_heads, dim]` ·
//! out: f32 `[tokens, heads, value_dim]`
//!
//! Query at position `p` sees keys `j <= p`, and with a window only those with `p - j < window`.
//! Head `h` reads kv head `h / (heads / kv_heads)`.
//!
//! Roofline: `2 (key_dim + value_dim)` flops per query head and visible key; a key and value are
//! read once for all heads of their group, so one decoded token is bound by reading the pages.

mod kv_rows;
pub(crate) mod reference;

use std::ops::Range;

use terrace_device::SharedRows;

use crate::ops::{AttentionArgs, Ops};
use kv_rows::KvRows;

pub(crate) fn paged_attention(ops: &Ops, mut args: AttentionArgs<'_>) {
    let layout = args.kv.layout;
    let [_, heads, key_dim] = args.q.dims();
    check(&args);
    let group = heads / layout.kv_heads;
    let out = SharedRows::<f32>::new(&mut args.out);
    let live_starts = args.kv.live_starts.as_slice::<i32>();
    let seqs = live_starts.len() - 1;
    ops.pool.run(seqs * layout.kv_heads, &|_, task| {
        let (seq, kv_head) = (task / layout.kv_heads, task % layout.kv_heads);
        let rows = KvRows::new(args.kv, args.live_k, args.live_v, args.layer, seq, kv_head);
        for token in live_starts[seq] as usize..live_starts[seq + 1] as usize {
            let position = rows.position_of(token);
            let visible = visible_keys(position, args.window);
            for head in kv_head * group..(kv_head + 1) * group {
                let q = &args.q.row::<f32>(token)[head * key_dim..(head + 1) * key_dim];
                // SAFETY: each head of a token is one task's.
                let out = unsafe {
                    out.part_mut(token, head * layout.value_dim..(head + 1) * layout.value_dim)
                };
                reference::attend(
                    q,
                    args.scale,
                    visible.clone(),
                    |j, i| rows.key_element(j, i),
                    |j, i| rows.value_element(j, i),
                    out,
                );
            }
        }
    });
}

fn visible_keys(position: usize, window: Option<usize>) -> Range<usize> {
    let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
    first..position + 1
}

fn check(args: &AttentionArgs<'_>) {
    let layout = args.kv.layout;
    let [tokens, heads, _] = args.q.dims();
    assert!(0 < layout.kv_heads && heads.is_multiple_of(layout.kv_heads), "{heads} query heads");
    assert_eq!(args.q.dims(), [tokens, heads, layout.key_dim], "q of attention");
    assert_eq!(args.live_k.dims(), [tokens, layout.kv_heads, layout.key_dim], "live keys");
    assert_eq!(args.live_v.dims(), [tokens, layout.kv_heads, layout.value_dim], "live values");
    assert_eq!(args.live_k.dtype(), layout.dtype, "live keys have page dtype");
    assert_eq!(args.live_v.dtype(), layout.dtype, "live values have page dtype");
    assert_eq!(args.out.dims(), [tokens, heads, layout.value_dim], "out of attention");
    assert!(args.window != Some(0), "a window of 0 hides every key");
    args.kv.assert_shapes(tokens);
}
