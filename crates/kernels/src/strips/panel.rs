//! Two strips that are multiplied together: neighbours, or the same of a gate and its partner.

use half::bf16;

use super::finish::Finish;
use super::project::StripPart;
use super::strip_format::STRIP_ROWS;
use super::strip_matrix::StripKind;
use crate::weight_format::WeightFormat;

#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    pub(crate) first: PanelStrip<'a>,
    pub(crate) second: Option<PanelStrip<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) struct PanelStrip<'a> {
    pub(crate) part: &'a StripPart,
    pub(crate) strip: usize,
    /// Where its products go, among those of a row.
    pub(crate) out_column: usize,
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
    if let (Finish::Gated(_), [gate, up]) = (finish, parts) {
        let [first, second] = [gate, up].map(|part| PanelStrip::new(part, number, 0));
        return Panel { first, second: Some(second) };
    }
    let mut column = 0;
    for part in parts {
        let panels = part.weight.strips().div_ceil(2);
        if number < panels {
            let first = PanelStrip::new(part, 2 * number, column);
            let second = 2 * number + 1;
            let exists = second < part.weight.strips();
            let second = exists.then(|| PanelStrip::new(part, second, column));
            return Panel { first, second };
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
    fn new(part: &'a StripPart, strip: usize, part_column: usize) -> Self {
        PanelStrip { part, strip, out_column: part_column + strip * STRIP_ROWS }
    }

    /// Rows that the matrix has of it.
    pub(crate) fn rows(&self) -> usize {
        STRIP_ROWS.min(self.part.weight.rows() - self.strip * STRIP_ROWS)
    }

    pub(crate) fn bias(&self) -> Option<&'a [f32]> {
        let first = self.strip * STRIP_ROWS;
        self.part.bias.as_ref().map(|bias| &bias[first..first + self.rows()])
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.part.weight.strip(self.strip)
    }

    /// The weights of a strip that is not quantised.
    pub(crate) fn bf16(&self) -> &'a [bf16] {
        // SAFETY: any two bytes are a bf16; a strip starts at a multiple of 64 bytes.
        unsafe { self.bytes().align_to().1 }
    }
}
