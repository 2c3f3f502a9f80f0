//! Layers whose keys and values are laid out alike, which share the pages of a sequence.

use terrace_device::DType;
use terrace_kernels::PageLayout;

use crate::decoder_spec::DecoderSpec;
use crate::layer_spec::AttentionSpec;

/// Layers of the same kv heads, width of heads and window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerGroup {
    /// Which of the decoder's layers; the `i`-th is layer `i` of the layout.
    pub layers: Vec<usize>,
    pub layout: PageLayout,
    /// How many positions back its queries see; `None` sees all.
    pub window: Option<usize>,
}

impl DecoderSpec {
    /// The groups of all layers, in the order of their first ones.
    ///
    /// A page has the same number of bytes whichever group it belongs to: the group with the most
    /// bytes a token has `block_tokens` in a page, and each other as many blocks of them as fit.
    pub fn kv_groups(&self, block_tokens: usize, dtype: DType) -> Vec<LayerGroup> {
        let mut groups: Vec<LayerGroup> = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let AttentionSpec::GroupedQuery(attention) = &layer.attention;
            let alike = |group: &LayerGroup| {
                let PageLayout { kv_heads, key_dim, .. } = group.layout;
                (kv_heads, key_dim, group.window)
                    == (attention.kv_heads, attention.head_dim, attention.window)
            };
            if let Some(group) = groups.iter_mut().find(|group| alike(group)) {
                group.layers.push(index);
                group.layout.layers += 1;
                continue;
            }
            let layout = PageLayout {
                layers: 1,
                kv_heads: attention.kv_heads,
                page_tokens: block_tokens,
                key_dim: attention.head_dim,
                value_dim: attention.head_dim,
                dtype,
            };
            groups.push(LayerGroup { layers: vec![index], layout, window: attention.window });
        }
        let page_bytes = LayerGroup::page_bytes(&groups);
        for LayerGroup { layout, .. } in &mut groups {
            layout.page_tokens *= page_bytes / layout.page_bytes();
        }
        groups
    }
}

impl LayerGroup {
    /// Bytes of a page that any of the groups can use.
    pub fn page_bytes(groups: &[LayerGroup]) -> usize {
        groups.iter().map(|group| group.layout.page_bytes()).max().unwrap_or(0)
    }
}
