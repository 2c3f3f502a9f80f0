//! The sequences of a step with one kind of cache, as flat arrays.

use std::ops::Range;
use std::sync::Arc;

use terrace_cache::{KvGroup, PageId};
use terrace_device::{DType, View, ViewMut, Workspace};
use terrace_kernels::{
    CHUNK_TILE_TOKENS, GroupKv, KvLayout, PageLayout, PagedKv, ReadRope, SlotKv, SlotLayout,
    SlotRule, SlotScorer,
};
use terrace_model::{ContextRope, DynamicRope, KvSegment, LayerLocation, layer_locations};

use super::as_i32;
use crate::generate::sequence::Sequence;
use crate::generate::step_plan::Chunk;

/// An entry of a block table that no row reads.
const ABSENT: i32 = -1;

#[derive(Default)]
pub(crate) struct Segment {
    rows: Range<usize>,
    singles: usize,
    live_starts: Vec<i32>,
    past_tokens: Vec<i32>,
    /// The sequence of each row, counted in this segment.
    row_seqs: Vec<i32>,
    /// Where keys turn when they are read: how fast, and the scale of attention.
    inv_freqs: Vec<f32>,
    rope_scales: Vec<f32>,
    locations: Vec<LayerLocation>,
    groups: Vec<GroupArrays>,
}

/// Where the sequences of a segment have their pages in one kv group.
struct GroupArrays {
    layout: KvLayout,
    block_tables: Vec<i32>,
    /// Leading entries of each sequence's table that are behind its window.
    absent: Vec<usize>,
    /// Of dense pages.
    commit_slots: Vec<i32>,
    /// Of slots: each sequence's rule, and where its rows see protected keys from; the latter empty
    /// where none is re-rotated.
    rules: Vec<i32>,
    rerotated_positions: Vec<i32>,
    /// Scores that sequences bring along; empty where none does.
    scorers: Vec<Option<Arc<dyn SlotScorer>>>,
}

impl Segment {
    /// Refills the arrays with the chunks of one kind; `first_row` is the batch's row of the first.
    pub fn fill(
        &mut self,
        groups: &[KvGroup],
        first_row: usize,
        chunks: &[(&Chunk, &Sequence)],
        dynamic_rope: Option<&DynamicRope>,
    ) {
        self.clear(groups);
        if let Some(rope) = dynamic_rope {
            chunks.iter().for_each(|(chunk, seq)| self.scale_positions(rope, chunk, seq));
        }
        self.rows = first_row..first_row;
        for (index, (chunk, _)) in chunks.iter().enumerate() {
            self.live_starts.push(as_i32(self.rows.len()));
            self.past_tokens.push(as_i32(chunk.start));
            self.row_seqs.extend(std::iter::repeat_n(as_i32(index), chunk.tokens));
            self.rows.end += chunk.tokens;
        }
        self.live_starts.push(as_i32(self.rows.len()));
        self.singles = chunks.iter().take_while(|(chunk, seq)| seq.is_single(chunk)).count();
        for (index, arrays) in self.groups.iter_mut().enumerate() {
            arrays.fill(index, chunks);
        }
    }

    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    pub fn seqs(&self) -> usize {
        self.past_tokens.len()
    }

    pub fn past_tokens(&self) -> &[i32] {
        &self.past_tokens
    }

    pub fn live_starts(&self) -> &[i32] {
        &self.live_starts
    }

    pub fn row_seqs(&self) -> &[i32] {
        &self.row_seqs
    }

    /// f32 `[seqs, pairs]` and `[seqs]`, see [`ReadRope`]; empty where keys turn before they are
    /// stored.
    pub fn read_rope(&self) -> [&[f32]; 2] {
        [&self.inv_freqs, &self.rope_scales]
    }

    pub fn locations(&self) -> &[LayerLocation] {
        &self.locations
    }

    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    pub fn layout(&self, group: usize) -> KvLayout {
        self.groups[group].layout
    }

    pub fn commit_slots(&self, group: usize) -> &[i32] {
        &self.groups[group].commit_slots
    }

    pub fn rules(&self, group: usize) -> &[i32] {
        &self.groups[group].rules
    }

    pub fn rerotated_positions(&self, group: usize) -> &[i32] {
        &self.groups[group].rerotated_positions
    }

    /// All block tables one after the other, and the width of each.
    pub fn block_tables(&self, group: usize) -> (&[i32], usize) {
        let tables = &self.groups[group].block_tables;
        (tables, tables.len() / self.seqs())
    }

    /// Leading sequences whose one row is computed as generated tokens are.
    pub fn singles(&self) -> usize {
        self.singles
    }

    /// The other sequences cut into tiles: each one's sequence, and its first row there. Later
    /// tiles see more keys and come first, so that no long one is left for the end.
    pub fn tiles(&self) -> Vec<i32> {
        let mut tiles = Vec::new();
        for (seq, pair) in self.live_starts.windows(2).enumerate().skip(self.singles()) {
            let firsts = (0..pair[1] - pair[0]).step_by(CHUNK_TILE_TOKENS);
            tiles.extend(firsts.map(|first| [as_i32(seq), first]));
        }
        tiles.sort_by_key(|[seq, first]| -(self.past_tokens[*seq as usize] + first));
        tiles.into_iter().flatten().collect()
    }

    /// The step's view of the arrays, on the host.
    pub fn kv<'a>(&'a self, scratch: &'a Workspace) -> KvSegment<'a> {
        let views = self.groups.iter().map(|arrays| match arrays.layout {
            KvLayout::Dense(layout) => GroupKv::Dense(self.dense(arrays, layout)),
            KvLayout::Slots(layout) => {
                let shape = [layout.layers, self.rows.len(), layout.kv_heads];
                let slots = scratch.take(DType::I32, shape);
                GroupKv::Slots(self.slots(arrays, layout, slots))
            }
        });
        KvSegment { rows: self.rows(), groups: views.collect(), locations: &self.locations }
    }

    /// Panics unless the step is sound, see [`PagedKv::check`]; ops over slots check theirs.
    ///
    /// pages: u8 `[pages, page_bytes]`
    pub fn check(&self, mut pages: ViewMut<'_>) {
        for arrays in &self.groups {
            if let KvLayout::Dense(layout) = arrays.layout {
                let kv = self.dense(arrays, layout);
                PagedKv { pages: pages.reborrow(), ..kv }.check_behind(&arrays.absent);
            }
        }
    }

    fn dense<'a>(&'a self, arrays: &'a GroupArrays, layout: PageLayout) -> PagedKv<'a> {
        PagedKv {
            layout,
            pages: GroupKv::no_pages(),
            block_tables: arrays.tables(self.seqs()),
            past_tokens: vector(&self.past_tokens),
            live_starts: vector(&self.live_starts),
            commit_slots: vector(&arrays.commit_slots),
            singles: 0,
            chunk_tiles: View::of::<i32>(&[], [0, 2]),
            row_seqs: View::of::<i32>(&[], [0]),
        }
    }

    fn slots<'a>(
        &'a self,
        arrays: &'a GroupArrays,
        layout: SlotLayout,
        slots: ViewMut<'a>,
    ) -> SlotKv<'a> {
        let rerotated = &arrays.rerotated_positions;
        SlotKv {
            layout,
            pages: GroupKv::no_pages(),
            block_tables: arrays.tables(self.seqs()),
            rules: View::of(&arrays.rules, [self.seqs(), SlotRule::WORDS]),
            live_starts: vector(&self.live_starts),
            slots,
            rerotated_positions: (!rerotated.is_empty()).then(|| vector(rerotated)),
            scorers: &arrays.scorers,
            read_rope: (!self.rope_scales.is_empty()).then(|| ReadRope {
                inv_freqs: View::of(
                    &self.inv_freqs,
                    [self.seqs(), self.inv_freqs.len() / self.seqs()],
                ),
                scales: View::of(&self.rope_scales, [self.seqs()]),
            }),
            singles: 0,
            chunk_tiles: View::of::<i32>(&[], [0, 2]),
            row_seqs: vector(&self.row_seqs),
        }
    }

    /// Scales a sequence's positions for its length at this chunk.
    fn scale_positions(&mut self, rope: &DynamicRope, chunk: &Chunk, seq: &Sequence) {
        let prompt_end = seq.memory.row_kind_ends[0];
        let context = |end: usize| rope.context_for(end.max(prompt_end));
        debug_assert_eq!(context(chunk.start + 1), context(chunk.end()), "{chunk:?}");
        let ContextRope { rope, attn_scale } = rope.rope(context(chunk.end()));
        self.inv_freqs.extend(rope.inv_freq);
        self.rope_scales.push(attn_scale);
    }

    fn clear(&mut self, groups: &[KvGroup]) {
        self.live_starts.clear();
        self.past_tokens.clear();
        self.row_seqs.clear();
        self.inv_freqs.clear();
        self.rope_scales.clear();
        self.locations = layer_locations(groups.iter().map(|group| &group.layers[..]));
        self.groups.truncate(groups.len());
        for (index, group) in groups.iter().enumerate() {
            match self.groups.get_mut(index) {
                Some(arrays) => arrays.layout = group.layout,
                None => self.groups.push(GroupArrays::new(group.layout)),
            }
        }
    }
}

impl GroupArrays {
    fn new(layout: KvLayout) -> Self {
        GroupArrays {
            layout,
            block_tables: Vec::new(),
            absent: Vec::new(),
            commit_slots: Vec::new(),
            rules: Vec::new(),
            rerotated_positions: Vec::new(),
            scorers: Vec::new(),
        }
    }

    /// `group`: which of the sequences' groups this is.
    fn fill(&mut self, group: usize, chunks: &[(&Chunk, &Sequence)]) {
        self.fill_tables(group, chunks);
        self.commit_slots.clear();
        self.rules.clear();
        self.rerotated_positions.clear();
        self.scorers.clear();
        match self.layout {
            KvLayout::Dense(_) => {
                for (chunk, seq) in chunks {
                    let slot = |position| as_i32(seq.tables()[group].slot(position).index());
                    self.commit_slots.extend((chunk.start..chunk.end()).map(slot));
                }
            }
            KvLayout::Slots(_) => self.fill_rules(group, chunks),
        }
    }

    fn fill_tables(&mut self, group: usize, chunks: &[(&Chunk, &Sequence)]) {
        let table = |seq: &'_ Sequence| seq.tables()[group].pages().len();
        let width = chunks.iter().map(|(_, seq)| table(seq)).max().unwrap_or(0);
        self.block_tables.clear();
        self.absent.clear();
        for (_, seq) in chunks {
            let pages = seq.tables()[group].pages();
            // No row sees what is absent. Kernels may still read it, for they read whole tiles of
            // keys; they find another page of the sequence there, whose numbers are as good.
            let first = pages.iter().copied().flatten().next();
            let absent = first.map_or(ABSENT, |page| as_i32(page.index()));
            let entry = |page: &Option<PageId>| page.map_or(absent, |page| as_i32(page.index()));
            self.block_tables.extend(pages.iter().map(entry));
            self.absent.push(pages.iter().take_while(|page| page.is_none()).count());
            let filled = self.block_tables.len().next_multiple_of(width);
            // Entries behind a sequence's own pages are never read.
            self.block_tables.resize(filled, ABSENT);
        }
    }

    fn fill_rules(&mut self, group: usize, chunks: &[(&Chunk, &Sequence)]) {
        let rules: Vec<SlotRule> =
            chunks.iter().map(|(chunk, seq)| seq.slot_rule(group, chunk)).collect();
        self.rules.extend(rules.iter().flat_map(SlotRule::to_words));
        if chunks.iter().any(|(_, seq)| seq.scorer(group).is_some()) {
            self.scorers.extend(chunks.iter().map(|(_, seq)| seq.scorer(group).cloned()));
        }
        let (first, seq) = chunks[0];
        if !seq.sees_rerotated_keys(first) {
            return;
        }
        for ((chunk, _), rule) in chunks.iter().zip(rules) {
            let seen_from = |position| as_i32(position) - rule.rerotated;
            self.rerotated_positions.extend((chunk.start..chunk.end()).map(seen_from));
        }
    }

    fn tables(&self, seqs: usize) -> View<'_> {
        View::of(&self.block_tables, [seqs, self.block_tables.len() / seqs])
    }
}

fn vector(values: &[i32]) -> View<'_> {
    View::of(values, [values.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_into_tiles_behind_the_single_rows() {
        let segment = Segment {
            singles: 2,
            live_starts: vec![0, 1, 2, 302, 303, 304],
            past_tokens: vec![5, 9, 40, 7, 300],
            ..Segment::default()
        };
        // Sequence 2 in three tiles, 3 and 4 in one each; those that see most keys first.
        assert_eq!(segment.tiles(), [4, 0, 2, 256, 2, 128, 2, 0, 3, 0]);
    }

    #[test]
    fn a_step_of_single_rows_has_no_tiles() {
        let (live_starts, past_tokens) = (vec![0, 1, 2], vec![0, 3]);
        let segment = Segment { singles: 2, live_starts, past_tokens, ..Segment::default() };
        assert!(segment.tiles().is_empty());
    }
}
