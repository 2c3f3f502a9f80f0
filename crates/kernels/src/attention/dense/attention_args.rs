//! The arguments of dense attention on the CPU.

use terrace_device::{View, ViewMut};

use crate::linear::row_kinds::RowKinds;
use crate::pages::paged_kv::PagedKv;

pub struct AttentionArgs<'a> {
    /// f32 `[tokens, heads, key_dim]`
    pub q: View<'a>,
    /// Where the tokens come from.
    pub row_kinds: RowKinds<'a>,
    /// page dtype `[tokens, kv_heads, key_dim]`, in fp8 with four bytes more for each row's scale
    pub live_k: View<'a>,
    /// page dtype `[tokens, kv_heads, value_dim]`, in fp8 likewise
    pub live_v: View<'a>,
    pub kv: &'a PagedKv<'a>,
    /// Layer inside the group.
    pub layer: usize,
    pub scale: f32,
    /// Key `j` is visible to query `i` iff `i - j < window`.
    pub window: Option<usize>,
    /// f32 `[tokens, heads, value_dim]`
    pub out: ViewMut<'a>,
}
