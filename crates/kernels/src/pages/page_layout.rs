//! Where the keys and values of dense pages lie.

use terrace_device::DType;

use crate::quantise::byte_format::ByteFormat;

/// How the bytes of one page are laid out.
///
/// All layers of a group lie together, so a page is one record when it moves between tiers:
/// `[layers][keys: kv_heads, page_tokens, key_dim][values: kv_heads, page_tokens, value_dim]`.
///
/// Rows of fp8 numbers have a scale each. Those of a layer's keys, f32 `[kv_heads, page_tokens]`,
/// lie behind its keys, those of its values behind its values, filled up to a multiple of 16 bytes.
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
    pub fn page_bytes(&self) -> usize {
        self.layers * (self.side_bytes(self.key_dim) + self.side_bytes(self.value_dim))
    }

    /// Bytes from the page's start to the keys of `layer`.
    pub fn key_offset(&self, layer: usize) -> usize {
        assert!(layer < self.layers, "layer {layer} of {}", self.layers);
        layer * (self.side_bytes(self.key_dim) + self.side_bytes(self.value_dim))
    }

    /// Bytes from the page's start to the values of `layer`.
    pub fn value_offset(&self, layer: usize) -> usize {
        self.key_offset(layer) + self.side_bytes(self.key_dim)
    }

    /// Bytes from the start of a layer's keys or values, of `dim` numbers each, to their scales.
    pub(crate) fn scales_offset(&self, dim: usize) -> usize {
        self.kv_heads * self.page_tokens * dim * self.dtype.bytes()
    }

    /// Bytes of a row's scale.
    pub(crate) fn scale_bytes(&self) -> usize {
        if ByteFormat::of(self.dtype).is_some() { size_of::<f32>() } else { 0 }
    }

    /// Elements of a live row of `dim` numbers: an fp8 row is followed by the bytes of its scale.
    pub(crate) fn live_row(&self, dim: usize) -> usize {
        dim + self.scale_bytes()
    }

    /// Bytes of a layer's keys or values.
    fn side_bytes(&self, dim: usize) -> usize {
        let scales = self.kv_heads * self.page_tokens * self.scale_bytes();
        self.scales_offset(dim) + scales.next_multiple_of(16)
    }
}
