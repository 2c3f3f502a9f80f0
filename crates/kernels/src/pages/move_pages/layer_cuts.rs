//! How a page is cut into the parts that come one after the other.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerCuts {
    Whole,
    ByLayer,
    /// 1, 1, 2, and from then on 4 layers.
    Graded,
}

const GRADES: [usize; 3] = [1, 1, 2];
const LARGEST: usize = 4;

impl LayerCuts {
    pub const ALL: [LayerCuts; 3] = [LayerCuts::Whole, LayerCuts::ByLayer, LayerCuts::Graded];

    pub fn name(self) -> &'static str {
        match self {
            LayerCuts::Whole => "whole",
            LayerCuts::ByLayer => "by layer",
            LayerCuts::Graded => "graded",
        }
    }

    /// The parts of a page that begins with `layers` layers of as many bytes. What follows them
    /// comes with the last.
    pub fn parts(self, page_bytes: usize, layer_bytes: usize, layers: usize) -> Vec<Range<usize>> {
        let mut sizes = GRADES.into_iter();
        let (mut first, mut parts) = (0, Vec::new());
        while first < layers {
            let size = match self {
                LayerCuts::Whole => layers,
                LayerCuts::ByLayer => 1,
                LayerCuts::Graded => sizes.next().unwrap_or(LARGEST),
            };
            let next = layers.min(first + size);
            let end = if next == layers { page_bytes } else { next * layer_bytes };
            parts.push(first * layer_bytes..end);
            first = next;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cuts: LayerCuts, layers: usize, want: &[usize]) {
        let page_bytes = 10 * layers + 7;
        let parts = cuts.parts(page_bytes, 10, layers);
        let sizes: Vec<usize> = parts.iter().map(|part| part.len() / 10).collect();
        assert_eq!(sizes, want);
        assert!(parts.windows(2).all(|two| two[0].end == two[1].start), "{parts:?}");
        assert_eq!(parts.last().map(|part| part.end), Some(page_bytes));
    }

    #[test]
    fn parts_cover_the_page_in_order() {
        check(LayerCuts::Whole, 5, &[5]);
        check(LayerCuts::ByLayer, 3, &[1, 1, 1]);
        check(LayerCuts::Graded, 1, &[1]);
        check(LayerCuts::Graded, 10, &[1, 1, 2, 4, 2]);
    }
}
