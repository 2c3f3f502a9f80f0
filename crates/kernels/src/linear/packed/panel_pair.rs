//! Two panels that are multiplied together: neighbours, or the same of a gate and its partner.

use std::ops::Range;

use half::bf16;

use super::finish::Finish;
use super::packed_matrix::PackedKind;
use super::packed_weight::PackedWeight;
use crate::linear::weight_format::WeightFormat;
use crate::tiles::PANEL_ROWS;

#[derive(Clone, Copy)]
pub(crate) struct PanelPair<'a> {
    pub(crate) first: PairedPanel<'a>,
    pub(crate) second: Option<PairedPanel<'a>>,
    /// Where its outputs go, among those of a row.
    out_column: usize,
    /// How many there are.
    outputs: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct PairedPanel<'a> {
    pub(crate) packed: &'a PackedWeight,
    panel: usize,
}

/// Pairs of a product.
pub(crate) fn panel_pairs(weights: &[PackedWeight], finish: Finish) -> usize {
    match finish {
        Finish::SideBySide(_) => {
            weights.iter().map(|packed| packed.weight.panels().div_ceil(2)).sum()
        }
        Finish::Gated(_) => weights[0].weight.panels(),
    }
}

/// The pair of a number below [`panel_pairs`].
pub(crate) fn panel_pair(
    weights: &[PackedWeight],
    finish: Finish,
    mut number: usize,
) -> PanelPair<'_> {
    let outputs = |packed: &PackedWeight, panel: usize, panels: usize| {
        (panels * PANEL_ROWS).min(packed.weight.rows() - panel * PANEL_ROWS)
    };
    if let (Finish::Gated(_), [gate, up]) = (finish, weights) {
        let [first, second] = [gate, up].map(|packed| PairedPanel { packed, panel: number });
        let (out_column, outputs) = (number * PANEL_ROWS, outputs(gate, number, 1));
        return PanelPair { first, second: Some(second), out_column, outputs };
    }
    let mut column = 0;
    for packed in weights {
        let panel_pairs = packed.weight.panels().div_ceil(2);
        if number < panel_pairs {
            let [first, second] = [0, 1].map(|i| PairedPanel { packed, panel: 2 * number + i });
            let second = Some(second).filter(|second| second.panel < packed.weight.panels());
            let out_column = column + first.panel * PANEL_ROWS;
            return PanelPair {
                first,
                second,
                out_column,
                outputs: outputs(packed, first.panel, 2),
            };
        }
        number -= panel_pairs;
        column += packed.weight.rows();
    }
    unreachable!("panel_pairs were counted over the same weights")
}

impl<'a> PanelPair<'a> {
    pub(crate) fn columns(&self) -> usize {
        self.first.packed.weight.columns()
    }

    pub(crate) fn out_columns(&self) -> Range<usize> {
        self.out_column..self.out_column + self.outputs
    }

    /// What is added to its outputs, which lie side by side.
    pub(crate) fn bias(&self) -> Option<&'a [f32]> {
        let bias = self.first.packed.bias.as_ref()?;
        Some(&bias[self.first.panel * PANEL_ROWS..][..self.outputs])
    }

    /// The format of its panels, if it is one and quantised.
    pub(crate) fn format(&self) -> Option<WeightFormat> {
        let mut kinds = self.panels().map(|(_, panel)| panel.packed.weight.kind());
        match kinds.next() {
            Some(first @ PackedKind::Quantised(format)) => {
                kinds.all(|kind| kind == first).then_some(format)
            }
            _ => None,
        }
    }

    /// Each panel, and its side of the pair.
    pub(crate) fn panels(&self) -> impl Iterator<Item = (usize, PairedPanel<'a>)> {
        [Some(self.first), self.second].into_iter().flatten().enumerate()
    }
}

impl<'a> PairedPanel<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.packed.weight.panel(self.panel)
    }

    /// The weights of a panel that is not quantised.
    pub(crate) fn bf16(&self) -> &'a [bf16] {
        // SAFETY: any two bytes are a bf16; a panel starts at a multiple of 64 bytes.
        unsafe { self.bytes().align_to().1 }
    }
}
