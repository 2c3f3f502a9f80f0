//! The arguments of HSTU attention.

use terrace_device::{View, ViewMut};

use super::relative_bias::RelativeBias;
#[cfg(doc)]
use super::row_tiles::HstuTiles;
use super::step_size::HstuStepSize;
use crate::pages::page_layout::PageLayout;

/// Applies SiLU to queries, keys and values if asked, attends, and stores the live keys and values
/// that are to be kept.
pub struct HstuAttendArgs<'a> {
    /// act `[tokens, heads * key_dim]`; used up.
    pub q: ViewMut<'a>,
    /// act `[tokens, heads * key_dim]`; used up.
    pub k: ViewMut<'a>,
    /// act `[tokens, heads * value_dim]`; used up.
    pub v: ViewMut<'a>,
    /// Whether the three go through SiLU first.
    pub activates: bool,
    /// Layer of the pages.
    pub layer: usize,
    pub scale: f32,
    pub bias: Option<RelativeBias<'a>>,
    pub row_scale: RowScale<'a>,
    pub rows: AttendedRows,
    /// u8 `[bytes]`: memory to work in, at least as much as `Ops::hstu_scratch_bytes` asks for.
    pub scratch: ViewMut<'a>,
    /// act `[tokens, heads * value_dim]`; rows that are not asked for stay as they are, or not.
    pub out: ViewMut<'a>,
}

/// The rows whose results are asked for. Keys and values of all are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttendedRows {
    All,
    /// As in a last layer, where nobody looks at the history's.
    Candidates,
}

/// What sums over keys are multiplied or divided by.
#[derive(Clone, Copy)]
pub enum RowScale<'a> {
    DivideBy(f32),
    /// f32 `[tokens]`
    Multiply(View<'a>),
}

/// The keys and values of a step's sequences. Live rows of a sequence are what is new of its
/// history, and then candidates.
pub struct HstuKv<'a> {
    pub layout: PageLayout,
    /// u8 `[pages, bytes]`: a page may be longer than its layout.
    pub pages: ViewMut<'a>,
    /// i32 `[seqs, table_pages]`: physical page of each logical one; entries past a sequence's
    /// length are not read.
    pub block_tables: View<'a>,
    /// i32 `[seqs]`: tokens of the history that are in slots, which are positions `0..past`.
    pub past_tokens: View<'a>,
    /// i32 `[seqs + 1]`: where each sequence's live rows start in the batch; the last is `tokens`.
    pub live_starts: View<'a>,
    /// i32 `[seqs]`: how many of them are of the history.
    pub history_rows: View<'a>,
    /// i32 `[tokens]`: the slot that takes each live row; of candidates, which no slot keeps,
    /// [`live_slot`].
    pub commit_slots: View<'a>,
    /// i32 `[tokens, 4]`: what each row sees, as [`RowSpan`](super::RowSpan).
    pub spans: View<'a>,
    /// For a GPU; the CPU reads none of these four.
    ///
    /// i32 `[seqs, pages]`: candidates lie in pages too, which are scratch: the page of each of a
    /// sequence's logical ones.
    pub live_tables: View<'a>,
    /// i32 `[tokens]`: the sequence of each live row.
    pub row_seqs: View<'a>,
    pub tiles: HstuTileViews<'a>,
    /// The same of the candidates alone.
    pub candidate_tiles: HstuTileViews<'a>,
}

/// [`HstuTiles`] where the ops compute. Items of no rows may follow, and sums of none.
#[derive(Clone, Copy)]
pub struct HstuTileViews<'a> {
    /// i32 `[tiles, HstuTiles::ITEM_WORDS]`
    pub items: View<'a>,
    /// i32 `[_, HstuTiles::SUM_WORDS]`
    pub sums: View<'a>,
}

impl HstuKv<'_> {
    pub fn size(&self) -> HstuStepSize {
        let ([tokens], [seqs, table_pages]) = (self.commit_slots.dims(), self.block_tables.dims());
        HstuStepSize { tokens, seqs, table_pages }
    }
}

/// What stands in [`HstuKv::commit_slots`] for a candidate in a slot of the scratch pages.
pub fn live_slot(slot: usize) -> i32 {
    -1 - i32::try_from(slot).expect("slots are 31 bits wide")
}
