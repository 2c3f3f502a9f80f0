//! The memory that a step works in on a GPU: pages for the candidates, and for fp8 pages that go to
//! the tensor cores, what they hold as bf16.

use terrace_device::DType;

use super::page_side::LayerSides;
use crate::hstu::attention::step_size::HstuStepSize;
use crate::pages::page_layout::PageLayout;

/// Every part starts at a cache line.
const ALIGNMENT: usize = 128;

pub(super) struct HstuScratch {
    /// Pages of candidates, and how many they may be.
    pub live_layout: PageLayout,
    pub live_pages: usize,
    /// Where there are pages to be widened.
    pub wide: Option<WidePages>,
}

/// One sequence's pages after the other's, all of one layer, and tables of them.
pub(super) struct WidePages {
    pub layout: PageLayout,
    pub pages: usize,
}

impl HstuScratch {
    /// `widens`: whether fp8 pages are widened.
    pub(super) fn new(layout: &PageLayout, size: HstuStepSize, widens: bool) -> Self {
        let HstuStepSize { tokens, seqs, table_pages } = size;
        let dtype = if widens { DType::Bf16 } else { layout.dtype };
        let live_layout = PageLayout { layers: 1, dtype, ..*layout };
        // Each sequence's candidates begin a page.
        let live_pages = tokens.min(tokens / layout.page_tokens + seqs);
        let wide = WidePages { layout: live_layout, pages: seqs * table_pages };
        HstuScratch { live_layout, live_pages, wide: widens.then_some(wide) }
    }

    pub(super) fn bytes(&self) -> usize {
        let wide = self.wide.as_ref().map_or(0, |wide| {
            let tables = wide.pages * DType::I32.bytes();
            aligned(wide.pages * wide.layout.page_bytes()) + aligned(tables)
        });
        self.live_bytes() + wide
    }

    /// The candidates' pages, in scratch that begins at `address`.
    pub(super) fn live_sides(&self, address: u64) -> LayerSides {
        LayerSides::new(address, self.live_layout.page_bytes(), &self.live_layout, 0)
    }

    /// The address of the tables of wide pages.
    pub(super) fn wide_tables(&self, address: u64) -> u64 {
        address + self.live_bytes() as u64
    }

    pub(super) fn wide_sides(&self, address: u64, wide: &WidePages) -> LayerSides {
        let start = self.wide_tables(address) + aligned(wide.pages * DType::I32.bytes()) as u64;
        LayerSides::new(start, wide.layout.page_bytes(), &wide.layout, 0)
    }

    fn live_bytes(&self) -> usize {
        aligned(self.live_pages * self.live_layout.page_bytes())
    }
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> PageLayout {
        let dtype = DType::F8E4m3;
        PageLayout { layers: 3, kv_heads: 2, page_tokens: 32, key_dim: 64, value_dim: 64, dtype }
    }

    #[test]
    fn candidates_of_every_sequence_have_room() {
        let size = HstuStepSize { tokens: 70, seqs: 3, table_pages: 5 };
        let plain = HstuScratch::new(&layout(), size, false);
        // One candidate, one, and 68 of them are 1 + 1 + 3 pages.
        assert_eq!(plain.live_pages, 5);
        assert_eq!(plain.bytes(), 5 * 2 * (2 * 32 * 64 + 2 * 32 * 4));
        let few = HstuStepSize { tokens: 2, ..size };
        assert_eq!(HstuScratch::new(&layout(), few, false).live_pages, 2);
    }

    #[test]
    fn wide_pages_lie_behind_their_tables() {
        let size = HstuStepSize { tokens: 70, seqs: 3, table_pages: 5 };
        let scratch = HstuScratch::new(&layout(), size, true);
        let (side, live) = (2 * 32 * 64 * 2, 5 * 2 * 2 * 32 * 64 * 2);
        assert_eq!(scratch.wide_tables(1024), 1024 + live as u64);
        assert_eq!(scratch.bytes(), live + 128 + 15 * 2 * side);
    }
}
