//! Where attention finds keys and values: plain data that decides nothing.

use terrace_device::{DType, View, ViewMut};

/// How the bytes of one page are laid out.
///
/// All layers of a group lie together, so a page is one record when it moves between tiers:
/// `[layers][keys: kv_heads, page_tokens, key_dim][values: kv_heads, page_tokens, value_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    pub layers: usize,
    pub kv_heads: usize,
    pub page_tokens: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub dtype: DType,
}

impl PageLayout {
    fn key_bytes(&self) -> usize {
        self.kv_heads * self.page_tokens * self.key_dim * self.dtype.bytes()
    }

    fn value_bytes(&self) -> usize {
        self.kv_heads * self.page_tokens * self.value_dim * self.dtype.bytes()
    }

    pub fn page_bytes(&self) -> usize {
        self.layers * (self.key_bytes() + self.value_bytes())
    }

    /// Bytes from the page's start to the keys of `layer`.
    pub fn key_offset(&self, layer: usize) -> usize {
        assert!(layer < self.layers, "layer {layer} of {}", self.layers);
        layer * (self.key_bytes() + self.value_bytes())
    }

    /// Bytes from the page's start to the values of `layer`.
    pub fn value_offset(&self, layer: usize) -> usize {
        self.key_offset(layer) + self.key_bytes()
    }
}

/// The pages of one group of layers, and which of them each sequence of a step holds.
///
/// The step is pure: attention reads the `past` slots of each sequence and the live rows; the
/// live rows then go to `commit_slots`, none of which is read. A slot is
/// `page * page_tokens + offset`.
pub struct PagedKv<'a> {
    pub layout: PageLayout,
    /// u8 `[pages, page_bytes]`
    pub pages: ViewMut<'a>,
    /// i32 `[seqs, table_pages]`: physical page of each logical one; entries past a sequence's
    /// length are not read.
    pub block_tables: View<'a>,
    /// i32 `[seqs]`: tokens already in slots, which are positions `0..past`.
    pub past_tokens: View<'a>,
    /// i32 `[seqs + 1]`: where each sequence's live rows start in the batch; the last is `tokens`.
    pub live_starts: View<'a>,
    /// i32 `[tokens]`: the slot that takes each live row.
    pub commit_slots: View<'a>,
}
