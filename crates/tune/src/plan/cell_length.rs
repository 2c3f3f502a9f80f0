//! How many tokens a cell may have.

/// Where the longest cell's tokens come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellLength {
    /// The longest cache's slots times the multiplier.
    Slots { multiplier: f64 },
    /// As newer versions of keys_values have it: times `2 kv_heads head_dim / hidden` as well, by
    /// which the slots' keys and values outweigh a layer's input.
    KeysValues { multiplier: f64, kv_width: usize, hidden: usize },
}

impl CellLength {
    /// Smallest multiplier: below, cells are so many that their first slots cost more than they.
    pub const MULTIPLIER_LEAST: f64 = 0.1;

    pub fn multiplier(self) -> f64 {
        match self {
            CellLength::Slots { multiplier } | CellLength::KeysValues { multiplier, .. } => {
                multiplier
            }
        }
    }

    #[must_use]
    pub fn with_multiplier(self, times: f64) -> Self {
        match self {
            CellLength::Slots { .. } => CellLength::Slots { multiplier: times },
            CellLength::KeysValues { kv_width, hidden, .. } => {
                CellLength::KeysValues { multiplier: times, kv_width, hidden }
            }
        }
    }

    /// Most tokens of a cell of several chunks, where the longest cache has so many slots.
    pub fn tokens(self, slots: usize) -> usize {
        let times = match self {
            CellLength::Slots { multiplier } => multiplier,
            CellLength::KeysValues { multiplier, kv_width, hidden } => {
                multiplier * (2 * kv_width) as f64 / hidden as f64
            }
        };
        (slots as f64 * times) as usize
    }
}
