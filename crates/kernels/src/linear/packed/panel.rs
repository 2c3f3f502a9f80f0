//! Two strips that are multiplied together: neighbours, or the same of a gate and its partner.

use std::ops::Range;

use half::bf16;

use super::finish::Finish;
use super::strip_format::STRIP_ROWS;
use super::strip_matrix::StripKind;
use super::strip_part::StripPart;
use crate::linear::weight_format::WeightFormat;

#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    pub(crate) first: PanelStrip<'a>,
    pub(crate) second: Option<PanelStrip<'a>>,
    /// Where its outputs go, among those of a row.
    out_column: usize,
    /// How many there are.
    outputs: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct PanelStrip<'a> {
    pub(crate) part: &'a StripPart,
    strip: usize,
}

/// Panels of a product.
pub(crate) fn panels(parts: &[StripPart], finish: Finish) -> usize {
    match finish {
        Finish::SideBySide => parts.iter().map(|part| part.weight.strips().div_ceil(2)).sum(),
        Finish::Gated(_) => parts[0].weight.strips(),
    }
}

/// The panel of a number below [`panels`].
pub(crate) fn panel(parts: &[StripPart], finish: Finish, mut number: usize) -> Panel<'_> {
    let outputs = |part: &StripPart, strip: usize, strips: usize| {
        (strips * STRIP_ROWS).min(part.weight.rows() - strip * STRIP_ROWS)
    };
    if let (Finish::Gated(_), [gate, up]) = (finish, parts) {
        let [first, second] = [gate, up].map(|part| PanelStrip { part, strip: number });
        let (out_column, outputs) = (number * STRIP_ROWS, outputs(gate, number, 1));
        return Panel { first, second: Some(second), out_column, outputs };
    }
    let mut column = 0;
    for part in parts {
        let panels = part.weight.strips().div_ceil(2);
        if number < panels {
            let [first, second] = [0, 1].map(|i| PanelStrip { part, strip: 2 * number + i });
            let second = Some(second).filter(|second| second.strip < part.weight.strips());
            let out_column = column + first.strip * STRIP_ROWS;
            return Panel { first, second, out_column, outputs: outputs(part, first.strip, 2) };
        }
        number -= panels;
        column += part.weight.rows();
    }
    unreachable!("panels were counted over the same parts")
}

impl<'a> Panel<'a> {
    pub(crate) fn columns(&self) -> usize {
        self.first.part.weight.columns()
    }

    pub(crate) fn out_columns(&self) -> Range<usize> {
        self.out_column..self.out_column + self.outputs
    }

    /// What is added to its outputs, which lie side by side.
    pub(crate) fn bias(&self) -> Option<&'a [f32]> {
        let bias = self.first.part.bias.as_ref()?;
        Some(&bias[self.first.strip * STRIP_ROWS..][..self.outputs])
    }

    /// The format of its strips, if it is one and quantised.
    pub(crate) fn format(&self) -> Option<WeightFormat> {
        let mut kinds = self.strips().map(|(_, strip)| strip.part.weight.kind());
        match kinds.next() {
            Some(first @ StripKind::Quantised(format)) => {
                kinds.all(|kind| kind == first).then_some(format)
            }
            _ => None,
        }
    }

    /// Each strip, and its side of the panel.
    pub(crate) fn strips(&self) -> impl Iterator<Item = (usize, PanelStrip<'a>)> {
        [Some(self.first), self.second].into_iter().flatten().enumerate()
    }
}

impl<'a> PanelStrip<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.part.weight.strip(self.strip)
    }

    /// The weights of a strip that is not quantised.
    pub(crate) fn bf16(&self) -> &'a [bf16] {
        // SAFETY: any two bytes are a bf16; a strip starts at a multiple of 64 bytes.
        unsafe { self.bytes().align_to().1 }
    }
}
