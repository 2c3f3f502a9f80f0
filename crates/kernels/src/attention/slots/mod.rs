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
//! Rows of prompts go through the matrix units where there are any ([`prompt_part`]), whatever else
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
mod prompt_part;
pub(crate) mod reference;
mod scored_slots;
mod scores;
mod slot_task;
mod store;
mod tile;
mod work;

pub(crate) use scored_slots::KEPT_WEIGHTS;
pub use scored_slots::max_scored_slots;
use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::elementwise::rope::{self, RopeAngles, RopeStyle};
use crate::elementwise::{cast, rms_norm};
use crate::linear::row_kinds::RowKinds;
use crate::linear::vector::Vector;
use crate::pages::slot_kv::SlotKv;

/// Norms the heads if asked, rotates queries and keys, stores keys and values in the slots chosen
/// for them, attends, and adds to the scores.
pub struct AttendSlotsArgs<'a, 'k> {
    /// `[tokens, (heads + 2 kv_heads) * head_dim]`: queries, keys and values side by side; used up.
    pub qkv: ViewMut<'a>,
    pub heads: usize,
    /// Where the tokens of the whole step come from, and which of its rows is the first here.
    pub row_kinds: RowKinds<'a>,
    pub first_row: usize,
    pub query_norm: Option<&'a Vector>,
    pub key_norm: Option<&'a Vector>,
    pub norm_eps: f32,
    /// Of queries, and of keys unless they turn when they are read.
    pub angles: RopeAngles<'a>,
    /// How protected keys are re-rotated; `None` where none is.
    pub rerotated: Option<RerotatedRope<'a>>,
    pub rope_style: RopeStyle,
    pub kv: &'a mut SlotKv<'k>,
    /// Layer inside the group.
    pub layer: usize,
    pub scale: f32,
    /// Key `j` is visible to query `i` iff `i - j < window`.
    pub window: Option<usize>,
    /// Memory to work in: of the type and columns that `Ops::attend_slots_scratch` asks for.
    pub scratch: ViewMut<'a>,
    /// `[tokens, heads * head_dim]`
    pub out: ViewMut<'a>,
}

/// The same rotation twice: queries may turn back by it, or keys turn on.
#[derive(Clone, Copy)]
pub struct RerotatedRope<'a> {
    /// Of queries as protected keys see them, `SlotRule::rerotated` positions earlier.
    pub angles: RopeAngles<'a>,
    /// f32 `[rotary_dim / 2]`: radians per position of each pair, unless
    /// [`ReadRope`](crate::ReadRope) has those of the sequences.
    pub inv_freq: View<'a>,
}

pub(crate) fn attend_slots(ctx: &CpuCtx, args: AttendSlotsArgs<'_, '_>) {
    let layout = args.kv.layout;
    let (heads, kv_heads) = (args.heads, layout.kv_heads);
    let widths = [heads * layout.key_dim, kv_heads * layout.key_dim, kv_heads * layout.value_dim];
    let [query, key, value] = args.qkv.split_columns(widths);
    let (mut query, mut key) = (query.split_heads(heads), key.split_heads(kv_heads));
    if let Some(norm) = args.query_norm {
        rms_norm::rms_norm_heads(ctx, query.reborrow(), norm.view(), args.norm_eps);
    }
    if let Some(norm) = args.key_norm {
        rms_norm::rms_norm_heads(ctx, key.reborrow(), norm.view(), args.norm_eps);
    }
    let mut rerotated = args.scratch.split_heads(heads);
    if let Some(rope) = args.rerotated {
        cast::cast(ctx, query.as_view(), rerotated.reborrow());
        rope::rope(ctx, rerotated.reborrow(), rope.angles, args.rope_style);
    }
    rope::rope(ctx, query.reborrow(), args.angles, args.rope_style);
    if args.kv.read_rope.is_none() {
        rope::rope(ctx, key.reborrow(), args.angles, args.rope_style);
    }
    store::store(ctx, key.as_view(), value.as_view().split_heads(kv_heads), args.kv, args.layer);
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
        args.kv,
        args.out.split_heads(heads),
    );
}
