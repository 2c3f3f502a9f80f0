//! Where attention over chosen slots finds what it reads and writes: plain data that decides
//! nothing.
//!
//! A step of a sequence is its next policy chunk, or, of the first chunk, a part of it. Before the
//! layers run, [`Ops::choose_slots`](crate::Ops::choose_slots) gives each live row a slot in every
//! head of every layer: its position is written there, its score becomes 0, and the token that was
//! there is gone. In each layer [`Ops::attend`](crate::Ops::attend) then writes the
//! live rows into these slots, attends over all slots by their positions, and adds to the scores.
//! So the pages are all the state there is between two steps.

use std::sync::Arc;

use terrace_device::{View, ViewMut};

use crate::pages::slot_layout::SlotLayout;
use crate::pages::slot_rule::{SlotRule, SlotRuleKind};
use crate::pages::slot_scorer::SlotScorer;

/// The slots of one group of layers, and those of each sequence of a step.
///
/// Slot `s` of a sequence is slot `s % page_slots` of the page `block_tables[seq][s / page_slots]`;
/// no two sequences of a step share a page that one of them writes.
pub struct SlotKv<'a> {
    pub layout: SlotLayout,
    /// u8 `[pages, bytes]`: a page may be longer than its layout.
    pub pages: ViewMut<'a>,
    /// i32 `[seqs, table_pages]`; entries behind a sequence's own pages are not read.
    pub block_tables: View<'a>,
    /// i32 `[seqs, SlotRule::WORDS]`: see [`SlotRule`].
    pub rules: View<'a>,
    /// i32 `[seqs + 1]`: where each sequence's live rows start in the batch; the last is `tokens`.
    pub live_starts: View<'a>,
    /// i32 `[layers, tokens, kv_heads]`: the slot of each live row; written by `choose_slots`.
    pub slots: ViewMut<'a>,
    /// i32 `[tokens]`: where live rows see protected keys from, `rerotated` positions before their
    /// own; `None` where no key is re-rotated.
    pub rerotated_positions: Option<View<'a>>,
    /// `[seqs]`: of scored rules, scores that a program brings along, in place of the built-in
    /// ones; empty where nobody has any. For the CPU alone.
    pub scorers: &'a [Option<Arc<dyn SlotScorer>>],
    /// Keys lie in their slots as they are, and are rotated on read; `None` where they were
    /// rotated before they are stored.
    pub read_rope: Option<ReadRope<'a>>,
    /// For a GPU, how the rows are shared out; the CPU does not read the next two.
    ///
    /// The first sequences, which have one live row each.
    pub singles: usize,
    /// i32 `[tiles, 2]`: the other sequences cut into tiles of
    /// [`CHUNK_TILE_TOKENS`](crate::CHUNK_TILE_TOKENS) live rows at most: the sequence, and the
    /// first row there.
    pub chunk_tiles: View<'a>,
    /// i32 `[tokens]`: the sequence of each live row.
    pub row_seqs: View<'a>,
}

/// How far positions reach in each sequence of a step: its queries and all its keys are rotated
/// alike, so that another step may scale them otherwise.
#[derive(Clone, Copy)]
pub struct ReadRope<'a> {
    /// f32 `[seqs, rotary_dim / 2]`: radians per position of each pair.
    pub inv_freqs: View<'a>,
    /// f32 `[seqs]`: the scale of attention, instead of `AttendArgs::scale`.
    pub scales: View<'a>,
}

impl ReadRope<'_> {
    /// Panics unless there is a rotation for heads of so many numbers in each sequence.
    pub(crate) fn check(&self, seqs: usize, head_dim: usize) {
        let [rope_seqs, pairs] = self.inv_freqs.dims();
        assert_eq!((rope_seqs, self.scales.dims()), (seqs, [seqs]), "sequences of read_rope");
        assert!(2 * pairs <= head_dim, "rotation of {} elements in heads of {head_dim}", 2 * pairs);
    }
}

impl SlotKv<'_> {
    pub fn seqs(&self) -> usize {
        let [seqs, _] = self.rules.dims();
        seqs
    }

    /// On the host.
    pub fn rule(&self, seq: usize) -> SlotRule {
        SlotRule::from_words(self.rules.row::<i32>(seq))
    }

    /// The score that a sequence brings along.
    pub(crate) fn scorer(&self, seq: usize) -> Option<&dyn SlotScorer> {
        self.scorers.get(seq)?.as_deref()
    }

    /// Live rows of a sequence. On the host.
    pub fn live_rows(&self, seq: usize) -> std::ops::Range<usize> {
        let starts = self.live_starts.as_slice::<i32>();
        starts[seq] as usize..starts[seq + 1] as usize
    }

    /// Panics unless the arrays fit each other and every slot that is read or written exists. On
    /// the host.
    pub fn check(&self, tokens: usize) {
        let [pages, bytes] = self.pages.dims();
        let [seqs, table_pages] = self.block_tables.dims();
        let layout = self.layout;
        assert!(layout.page_bytes() <= bytes, "pages of {bytes} bytes do not fit their layout");
        assert_eq!(self.rules.dims(), [seqs, SlotRule::WORDS], "rules");
        assert!(self.scorers.is_empty() || self.scorers.len() == seqs, "scorers");
        assert_eq!(self.live_starts.dims(), [seqs + 1], "live_starts");
        assert_eq!(self.slots.dims(), [layout.layers, tokens, layout.kv_heads], "slots");
        let starts = self.live_starts.as_slice::<i32>();
        assert_eq!((starts[0], starts[seqs] as usize), (0, tokens), "ends of live_starts");
        assert!(starts.is_sorted(), "live_starts {starts:?} go back");
        if let Some(rope) = &self.read_rope {
            rope.check(seqs, layout.key_dim);
        }
        for seq in 0..seqs {
            let (rule, live) = (self.rule(seq), self.live_rows(seq).len());
            assert!(0 <= rule.past && 0 < rule.slots, "sequence {seq}: {rule:?}");
            let evictable = rule.slots - rule.protected - rule.grace;
            let full = rule.slots <= rule.past && rule.kind != SlotRuleKind::Keep;
            assert!(!full || live as i32 <= evictable, "{live} rows for {rule:?}");
            let used = rule.filled(live).div_ceil(layout.page_slots);
            assert!(used <= table_pages, "{used} pages in tables of {table_pages}");
            for &page in &self.block_tables.row::<i32>(seq)[..used] {
                let known = usize::try_from(page).is_ok_and(|page| page < pages);
                assert!(known, "page {page} of {pages} in the table of sequence {seq}");
            }
        }
    }
}
