//! What one layer does with its queries, keys and values: the arguments of [`Ops::attend`].
//!
//! [`Ops::attend`]: crate::Ops::attend

use terrace_device::{DType, ViewMut};

use crate::elementwise::rope::{RopeAngles, RopeStyle};
use crate::linear::row_kinds::RowKinds;
use crate::linear::vector::Vector;
use crate::pages::paged_kv::{PageLayout, PagedKv};

/// Norms the heads if asked, rotates queries and keys, attends over the past slots and the live
/// rows, and commits the live keys and values into their slots.
pub struct AttendArgs<'a, 'k> {
    /// `[tokens, (heads + 2 kv_heads) * head_dim]`: queries, keys and values side by side; used up.
    pub qkv: ViewMut<'a>,
    pub heads: usize,
    /// Where the tokens come from.
    pub row_kinds: RowKinds<'a>,
    pub query_norm: Option<&'a Vector>,
    pub key_norm: Option<&'a Vector>,
    pub norm_eps: f32,
    pub angles: RopeAngles<'a>,
    pub rope_style: RopeStyle,
    pub kv: &'a mut PagedKv<'k>,
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

impl AttendArgs<'_, '_> {
    /// Columns of queries, keys and values.
    pub(crate) fn widths(&self) -> [usize; 3] {
        let PageLayout { kv_heads, key_dim, value_dim, .. } = self.kv.layout;
        [self.heads * key_dim, kv_heads * key_dim, kv_heads * value_dim]
    }
}

/// Type and columns of the memory that [`AttendArgs::scratch`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttendScratch {
    pub dtype: DType,
    pub columns: usize,
}
