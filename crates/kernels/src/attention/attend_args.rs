//! What one layer does with its queries, keys and values: the arguments of [`Ops::attend`].
//!
//! [`Ops::attend`]: crate::Ops::attend

use terrace_device::{DType, View, ViewMut};

use crate::elementwise::rope::{RopeAngles, RopeStyle};
use crate::linear::row_kinds::RowKinds;
use crate::linear::vector::Vector;

/// Norms the heads if asked, rotates queries and keys, attends over the keys and values of the
/// rows' sequences and over the live rows, and stores the live keys and values in their slots. Over
/// slots of a policy it adds to their scores.
pub struct AttendArgs<'a> {
    /// `[tokens, (heads + 2 kv_heads) * head_dim]`: queries, keys and values side by side; used up.
    pub qkv: ViewMut<'a>,
    pub heads: usize,
    /// Where the tokens of the whole step come from, and which of its rows is the first here. Rows
    /// of dense caches are a step's first.
    pub row_kinds: RowKinds<'a>,
    pub first_row: usize,
    pub norms: HeadNorms<'a>,
    /// Of queries, and of keys unless they are rotated on read.
    pub angles: RopeAngles<'a>,
    /// How protected keys are re-rotated, of slots alone; `None` where none is.
    pub rerotated: Option<RerotatedRope<'a>>,
    pub rope_style: RopeStyle,
    /// Layer inside the group.
    pub layer: usize,
    pub scale: f32,
    /// Key `j` is visible to query `i` iff `i - j < window`.
    pub window: Option<usize>,
    /// Memory to work in: of the type and columns that `Ops::attend_scratch` asks for.
    pub scratch: ViewMut<'a>,
    /// `[tokens, heads * head_dim]`
    pub out: ViewMut<'a>,
}

/// Norms of each head before it is rotated, f32 `[head_dim]`.
#[derive(Clone, Copy)]
pub struct HeadNorms<'a> {
    pub query: Option<&'a Vector>,
    pub key: Option<&'a Vector>,
    pub eps: f32,
}

impl HeadNorms<'_> {
    pub const NONE: HeadNorms<'static> = HeadNorms { query: None, key: None, eps: 0.0 };
}

/// The same rotation twice: queries may be rotated back by it, or keys forward.
#[derive(Clone, Copy)]
pub struct RerotatedRope<'a> {
    /// Of queries as protected keys see them, `SlotRule::rerotated` positions earlier.
    pub angles: RopeAngles<'a>,
    /// f32 `[rotary_dim / 2]`: radians per position of each pair, unless
    /// [`ReadRope`](crate::ReadRope) has those of the sequences.
    pub inv_freq: View<'a>,
}

/// Type and columns of the memory that [`AttendArgs::scratch`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttendScratch {
    pub dtype: DType,
    pub columns: usize,
}
