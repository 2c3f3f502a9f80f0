//! Where attention finds keys and values: plain data that decides nothing.

use terrace_device::{View, ViewMut};

use crate::pages::commit::commit;
use crate::pages::page_layout::PageLayout;

/// The pages of one group of layers, and which of them each sequence of a step holds.
///
/// The step is pure: attention reads the `past` slots of each sequence and the live rows; the
/// live rows then go to `commit_slots`, none of which is read. A slot is
/// `page * page_tokens + offset`.
pub struct PagedKv<'a> {
    pub layout: PageLayout,
    /// u8 `[pages, bytes]`: a page may be longer than its layout.
    pub pages: ViewMut<'a>,
    /// i32 `[seqs, table_pages]`: physical page of each logical one; entries past a sequence's
    /// length are not read.
    pub block_tables: View<'a>,
    /// i32 `[seqs]`: tokens already in slots, which are positions `0..past`.
    pub past_tokens: View<'a>,
    /// i32 `[seqs + 1]`: where each sequence's live rows start in the batch; the last is `tokens`.
    pub live_starts: View<'a>,
    /// i32 `[tokens]`: the slot that takes each live row.
    pub commit_slots: View<'a>,
    /// For a GPU, how the rows are shared out; the CPU reads none of these three.
    ///
    /// The first sequences, which have one live row each.
    pub singles: usize,
    /// i32 `[tiles, 2]`: the other sequences cut into tiles of [`CHUNK_TILE_TOKENS`] live rows at
    /// most: the sequence, and the first row there. Those that see the most keys come first.
    pub chunk_tiles: View<'a>,
    /// i32 `[tokens]`: the sequence of each live row.
    pub row_seqs: View<'a>,
}

/// Live rows of one sequence that a block of a GPU's attention takes.
pub const CHUNK_TILE_TOKENS: usize = 128;

impl PagedKv<'_> {
    /// Writes the live keys and values of a layer into their slots · live: as `commit` takes them
    pub(crate) fn commit(&mut self, live: [View<'_>; 2], layer: usize) {
        let slot = |(token, slot): (usize, &i32)| {
            let slot = usize::try_from(*slot);
            (token, slot.unwrap_or_else(|_| panic!("the slot of row {token} is negative")))
        };
        let slots = self.commit_slots.as_slice::<i32>().iter().enumerate().map(slot);
        commit(live, &self.layout, layer, slots, self.pages.reborrow());
    }

    /// Panics unless the step is sound: every slot that is read or written exists, no slot is
    /// written twice, and none that is written is read. Call it once a step; attention itself
    /// checks only what keeps it inside the pages.
    pub fn check(&self) {
        self.check_behind(&vec![0; self.past_tokens.shape().count()]);
    }

    /// As [`check`](Self::check) where the first `absent` entries of each sequence's table are
    /// behind its window: no row sees what is there.
    pub fn check_behind(&self, absent: &[usize]) {
        let [tokens] = self.commit_slots.dims();
        self.assert_readable(tokens);
        let [pages, _] = self.pages.dims();
        let page_tokens = self.layout.page_tokens;
        let mut filled = vec![0; pages];
        for (seq, &past) in self.past_tokens.as_slice::<i32>().iter().enumerate() {
            let past = past as usize;
            let used = past.div_ceil(page_tokens);
            let table = self.block_tables.row::<i32>(seq)[..used].iter().enumerate();
            for (i, &page) in table.skip(absent[seq]) {
                let tokens_in_page = (past - i * page_tokens).min(page_tokens);
                let filled = &mut filled[page as usize];
                *filled = tokens_in_page.max(*filled);
            }
        }
        let mut slots: Vec<i32> = self.commit_slots.as_slice().to_vec();
        slots.sort_unstable();
        for pair in slots.windows(2) {
            assert!(pair[0] != pair[1], "slot {} takes two rows", pair[0]);
        }
        for slot in slots {
            let known = usize::try_from(slot).ok().filter(|slot| slot / page_tokens < pages);
            let slot = known.unwrap_or_else(|| panic!("slot {slot} of {}", pages * page_tokens));
            let (page, offset) = (slot / page_tokens, slot % page_tokens);
            assert!(filled[page] <= offset, "slot {slot} is read and written in one step");
        }
    }

    /// Panics unless the arrays fit each other and the slots that attention reads exist.
    pub(crate) fn assert_readable(&self, tokens: usize) {
        let [pages, page_bytes] = self.pages.dims();
        let [seqs, table_pages] = self.block_tables.dims();
        let page_tokens = self.layout.page_tokens;
        assert!(self.layout.page_bytes() <= page_bytes, "pages do not fit their layout");
        assert_eq!(self.past_tokens.dims(), [seqs], "past_tokens");
        assert_eq!(self.live_starts.dims(), [seqs + 1], "live_starts");
        assert_eq!(self.commit_slots.dims(), [tokens], "commit_slots");
        let starts = self.live_starts.as_slice::<i32>();
        assert_eq!((starts[0], starts[seqs] as usize), (0, tokens), "ends of live_starts");
        assert!(starts.is_sorted(), "live_starts {starts:?} go back");
        for (seq, &past) in self.past_tokens.as_slice::<i32>().iter().enumerate() {
            let past = usize::try_from(past).unwrap_or_else(|_| panic!("{past} past tokens"));
            let used = past.div_ceil(page_tokens);
            assert!(used <= table_pages, "{past} past tokens in {table_pages} pages");
            for &page in &self.block_tables.row::<i32>(seq)[..used] {
                let known = usize::try_from(page).is_ok_and(|page| page < pages);
                assert!(known, "page {page} of {pages} in the table of sequence {seq}");
            }
        }
    }
}
