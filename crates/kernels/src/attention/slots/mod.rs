//! Attention over chosen slots, which may hold other tokens in each head, and what it adds to
//! scores.
//!
//! Live rows are stored in their slots first, so a chunk sees its own tokens as later ones will.
//! A query at position `p` sees the slots whose position is at most `p`, and with a window `w`
//! those above `p - w` only. The weight of a slot is the softmax's, summed over the live rows of
//! its sequence, the mean over the query heads that share the head; see
//! `SlotRule::adds_to_scores`.
//!
//! Queries see protected keys as far away as `SlotRule::rerotated` says: by a second rotation of
//! their own, or one of the keys when they are read, so that stored keys never change.
//!
//! With `SlotKv::read_rope` keys are stored unrotated and rotated on read: each
//! step may scale positions by another length. That is a sine and a cosine for every pair of
//! every key and tile of live rows.
//!
//! Rows of prompts go through the matrix units where there are any ([`prompt_task`]), whatever else
//! is in the step.
//!
//! Roofline: reads each key and value of a head once for a tile of live rows. On the matrix units
//! the exponentials take as long as the products: one for each score, and one more where weights
//! are wanted.

mod attend;
mod attend_task;
mod block;
pub(crate) mod cuda;
mod cuts;
mod key_rotation;
mod own_scores;
#[cfg(target_arch = "x86_64")]
mod prompt_task;
pub(crate) mod reference;
mod scored_slots;
mod scores;
mod slot_task;
mod store;
mod tile;
mod work;

pub(crate) use scored_slots::KEPT_WEIGHTS;
pub use scored_slots::max_scored_slots;

use crate::attention::attend_args::AttendArgs;
use crate::attention::live_heads::{HeadDims, live_heads};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::elementwise::{cast, rope};
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;

/// What [`AttendArgs`] says, one op after the other.
pub(crate) fn attend_slots(ctx: &CpuCtx, args: AttendArgs<'_>, kv: &mut SlotKv<'_>) {
    let SlotLayout { kv_heads, key_dim, value_dim, .. } = kv.layout;
    let heads = args.heads;
    let dims = HeadDims { heads, kv_heads, key_dim, value_dim };
    let [mut query, mut key, value] = live_heads(ctx, args.qkv, dims, args.norms);
    let mut rerotated = args.scratch.split_heads(heads);
    if let Some(rope) = args.rerotated {
        cast::cast(ctx, query.as_view(), rerotated.reborrow());
        rope::rope(ctx, rerotated.reborrow(), rope.angles, args.rope_style);
    }
    rope::rope(ctx, query.reborrow(), args.angles, args.rope_style);
    if kv.read_rope.is_none() {
        rope::rope(ctx, key.reborrow(), args.angles, args.rope_style);
    }
    store::store(ctx, key.as_view(), value.as_view(), kv, args.layer);
    attend::attend(
        ctx,
        attend::Attention {
            query: query.as_view(),
            rerotated: args.rerotated.map(|_| rerotated.as_view()),
            rope_style: args.rope_style,
            row_kinds: args.row_kinds,
            first_row: args.first_row,
            layer: args.layer,
            scale: args.scale,
            window: args.window,
        },
        kv,
        args.out.split_heads(heads),
    );
}
