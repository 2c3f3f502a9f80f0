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

/// What a policy's rule is for one sequence at one step. `cache::SlotTable` is its specification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotRule {
    /// Tokens that earlier steps have put into slots; -1 on a GPU where there is no sequence.
    pub past: i32,
    /// Slots of the cache. The first tokens fill them in order.
    pub slots: i32,
    pub kind: SlotRuleKind,
    /// First tokens of the sequence that never leave.
    pub protected: i32,
    /// Newest tokens that do not leave yet.
    pub grace: i32,
    /// Slots that stay when the first tokens leave a cache that its first chunk filled.
    pub initial: i32,
    /// Tokens of the first chunk, which adds nothing to scores.
    pub first_chunk: i32,
    /// A score is divided by how long its token has been scored.
    pub per_age: bool,
    /// Weights count times the norms of values.
    pub by_value_norm: bool,
    /// Share of the score, the rest being the errors'; 1 where errors do not count.
    pub score_fraction: f32,
    /// By how many positions the protected keys are re-rotated when this step's rows attend.
    pub rerotated: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRuleKind {
    /// Nothing leaves: the slot is the position.
    Keep,
    /// The oldest leave, going round behind the protected ones.
    Recent,
    /// Those with the lowest score leave, in each head by itself.
    Scored,
}

impl SlotRule {
    /// Words of a rule on a device: the fields in their order, flags as 0 or 1, the share's bits,
    /// and one word of zero.
    pub const WORDS: usize = 12;

    /// A rule that protects nothing and counts weights as they are.
    pub fn new(kind: SlotRuleKind, past: usize, slots: usize) -> SlotRule {
        SlotRule {
            past: past as i32,
            slots: slots as i32,
            kind,
            protected: 0,
            grace: 0,
            initial: 0,
            first_chunk: 0,
            per_age: false,
            by_value_norm: false,
            score_fraction: 1.0,
            rerotated: 0,
        }
    }

    pub fn to_words(&self) -> [i32; Self::WORDS] {
        let kind = match self.kind {
            SlotRuleKind::Keep => 0,
            SlotRuleKind::Recent => 1,
            SlotRuleKind::Scored => 2,
        };
        [
            self.past,
            self.slots,
            kind,
            self.protected,
            self.grace,
            self.initial,
            self.first_chunk,
            i32::from(self.per_age),
            i32::from(self.by_value_norm),
            self.score_fraction.to_bits().cast_signed(),
            self.rerotated,
            0,
        ]
    }

    pub fn from_words(words: &[i32]) -> SlotRule {
        assert_eq!(words.len(), Self::WORDS, "words of a rule");
        SlotRule {
            past: words[0],
            slots: words[1],
            kind: match words[2] {
                0 => SlotRuleKind::Keep,
                1 => SlotRuleKind::Recent,
                2 => SlotRuleKind::Scored,
                other => panic!("rule of kind {other}"),
            },
            protected: words[3],
            grace: words[4],
            initial: words[5],
            first_chunk: words[6],
            per_age: words[7] != 0,
            by_value_norm: words[8] != 0,
            score_fraction: f32::from_bits(words[9].cast_unsigned()),
            rerotated: words[10],
        }
    }

    /// Slots that hold a token once `live` more are there.
    pub fn filled(&self, live: usize) -> usize {
        let seen = self.past as usize + live;
        match self.kind {
            SlotRuleKind::Keep => seen,
            SlotRuleKind::Recent | SlotRuleKind::Scored => seen.min(self.slots as usize),
        }
    }

    /// Whether what this step attends to is added to scores.
    pub fn adds_to_scores(&self) -> bool {
        self.kind == SlotRuleKind::Scored && self.first_chunk <= self.past
    }
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
