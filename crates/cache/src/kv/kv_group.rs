//! A set of layers that share one block table.

use terrace_kernels::KvLayout;

/// Layers of the same attention kind, cache length and storage format. A model with one kind of
/// attention has one group; a sequence holds one [`BlockTable`](crate::BlockTable) for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvGroup {
    /// Which of the model's layers; the `i`-th is layer `i` of the page layout.
    pub layers: Vec<usize>,
    pub layout: KvLayout,
    /// How many tokens a query sees, itself among them; `None` sees all.
    pub window: Option<usize>,
}

impl KvGroup {
    pub fn page_tokens(&self) -> usize {
        self.layout.page_tokens()
    }

    pub fn kv_heads(&self) -> usize {
        match &self.layout {
            KvLayout::Dense(layout) => layout.kv_heads,
            KvLayout::Slots(layout) => layout.kv_heads,
        }
    }

    /// Pages that hold `tokens`.
    pub fn pages_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.page_tokens())
    }

    /// The first token that one at `position` sees.
    pub fn first_visible(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// Pages that a sequence of `tokens` holds at most, if it grows by at most `step_tokens` at a
    /// time and lets go what no later token sees.
    pub fn most_pages(&self, tokens: usize, step_tokens: usize) -> usize {
        let all = self.pages_for(tokens);
        let visible = |window: usize| self.pages_for(window.saturating_add(step_tokens)) + 1;
        self.window.map_or(all, |window| all.min(visible(window)))
    }
}
