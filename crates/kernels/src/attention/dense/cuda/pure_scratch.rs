//! The memory that a pure step works in: its queries, and its live rows as pages of one token each.

use terrace_device::DType;

use crate::attention::attend_args::{AttendArgs, AttendScratch};
use crate::cuda::{LayerPages, query_dtype};
use crate::pages::page_layout::PageLayout;

pub(crate) struct PureScratch {
    /// Bytes of one token's queries, and of its keys and values in one layer.
    queries: usize,
    live: PageLayout,
}

impl PureScratch {
    pub(crate) fn new(layout: &PageLayout, heads: usize) -> Self {
        let queries = heads * layout.key_dim * query_dtype(layout.dtype).bytes();
        PureScratch {
            // Live rows begin where 16 bytes can be read at once.
            queries: queries.next_multiple_of(16),
            live: PageLayout { layers: 1, page_tokens: 1, ..*layout },
        }
    }

    pub(crate) fn wanted(&self) -> AttendScratch {
        let columns = self.queries + self.live.page_bytes();
        AttendScratch { dtype: DType::U8, columns }
    }

    /// Behind the queries of all tokens.
    pub(super) fn live_rows(&self, args: &AttendArgs<'_>) -> LayerPages {
        let [tokens, _] = args.scratch.dims();
        let address = args.scratch.device_address() + (tokens * self.queries) as u64;
        LayerPages::at(address, self.live.page_bytes(), &self.live, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_live_rows_of_a_token_have_room() {
        let layout = PageLayout {
            layers: 3,
            kv_heads: 2,
            page_tokens: 16,
            key_dim: 12,
            value_dim: 12,
            dtype: DType::F8E4m3,
        };
        // 6 heads of 12 f16 numbers are 144 bytes; a side is 2 rows of 12 bytes and 2 scales, of
        // which 8 bytes become 16.
        let wanted = PureScratch::new(&layout, 6).wanted();
        assert_eq!(wanted, AttendScratch { dtype: DType::U8, columns: 144 + 2 * (24 + 16) });
        // 5 heads of 12 f16 numbers are 120 bytes, which end at no multiple of 16.
        assert_eq!(PureScratch::new(&layout, 5).wanted().columns, 128 + 80);
    }
}
