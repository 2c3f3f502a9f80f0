//! How a layer's queries are shared out.
//!
//! A task is a cut of a sequence's live rows, with the query heads of one kv head. A sequence of
//! one cut adds its weights to the scores by itself. Of one with several, each cut's weights are
//! kept apart until all are done, and then summed in the order of cuts. How many cuts there are
//! follows from the sequence alone, so no sum depends on its batch-mates.

use std::ops::Range;

use terrace_device::{SharedRows, View, ViewMut};

use super::cuts::{CutSizes, Cuts};
use super::key_rotation::KeyRotation;
use super::own_scores::add_own_scores;
#[cfg(target_arch = "x86_64")]
use super::prompt_task::PromptTask;
use super::scores::add_to_scores;
use super::slot_task::SlotTask;
use crate::attention::blocks::{BLOCK_KEYS, OutRows, QueryRows};
use crate::cpu::cpu_ctx::{CpuCtx, OP_FLOATS};
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::{Simd, TileRow};
use crate::elementwise::rope::RopeStyle;
use crate::linear::row_kinds::RowKinds;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;
use crate::pages::slot_pages::SlotPages;
use crate::pages::slot_rule::SlotRule;
use crate::pages::slot_scorer::SlotScorer;

/// Queries are f32 `[tokens, heads, key_dim]`; see [`AttendArgs`](crate::AttendArgs).
pub(super) struct Attention<'a> {
    pub query: View<'a>,
    pub rerotated: Option<View<'a>>,
    pub rope_style: RopeStyle,
    pub row_kinds: RowKinds<'a>,
    pub first_row: usize,
    pub layer: usize,
    pub scale: f32,
    pub window: Option<usize>,
}

pub(super) fn attend(
    ctx: &CpuCtx,
    attention: Attention<'_>,
    kv: &mut SlotKv<'_>,
    mut out: ViewMut<'_>,
) {
    check(&attention, &kv.layout, &out);
    // SAFETY: a task touches its own head of its own sequence, and where there are several cuts
    // they only read.
    let pages = unsafe { SharedRows::<u8>::of_shared(&kv.pages) };
    let out = SharedRows::<f32>::new(&mut out);
    let layer = Layer { ctx, attention, kv, pages: &pages, out: &out };
    let kv_heads = kv.layout.kv_heads;
    ctx.run_with_scratch(kv.seqs() * kv_heads, &|scratch, task| {
        let seq = layer.sequence(task / kv_heads);
        if seq.cuts.cuts() == 1 {
            layer.attend_whole(&seq, task % kv_heads, scratch);
        }
    });
    for seq in (0..kv.seqs()).map(|seq| layer.sequence(seq)).filter(|seq| 1 < seq.cuts.cuts()) {
        layer.attend_cuts(&seq);
    }
}

fn check(attention: &Attention<'_>, layout: &SlotLayout, out: &ViewMut<'_>) {
    let [tokens, heads, key_dim] = attention.query.dims();
    assert_eq!(key_dim, layout.key_dim, "queries");
    assert_eq!(out.dims(), [tokens, heads, layout.value_dim], "out of attention");
    assert!(heads.is_multiple_of(layout.kv_heads), "{heads} query heads");
    let widest = key_dim.max(layout.value_dim);
    assert!(widest <= CpuCtx::MAX_HEAD_DIM, "heads of {widest}, at most {}", CpuCtx::MAX_HEAD_DIM);
}

struct Layer<'a, 'k> {
    ctx: &'a CpuCtx,
    attention: Attention<'a>,
    kv: &'a SlotKv<'k>,
    pages: &'a SharedRows<'a, u8>,
    out: &'a SharedRows<'a, f32>,
}

struct Sequence<'a> {
    rule: SlotRule,
    scorer: Option<&'a dyn SlotScorer>,
    /// Of keys that are rotated on read.
    rotation: Option<KeyRotation<'a>>,
    scale: f32,
    live: Range<usize>,
    table: &'a [i32],
    filled: usize,
    cuts: Cuts,
}

impl Sequence<'_> {
    /// Numbers of weights, in whole blocks.
    fn weight_floats(&self) -> usize {
        self.filled.next_multiple_of(BLOCK_KEYS)
    }

    /// Takes what all live rows attended to into the scores of a head · weights: `[filled]`
    fn score(&self, pages: &SlotPages<'_>, weights: &[f32], scratch: &mut [f32]) {
        let (rule, live) = (&self.rule, self.live.len());
        match self.scorer {
            None => add_to_scores(pages, rule, live, weights),
            Some(scorer) => add_own_scores(scorer, pages, rule, live, weights, scratch),
        }
    }
}

impl<'a> Layer<'a, '_> {
    fn sequence(&self, seq: usize) -> Sequence<'a> {
        let (rule, live) = (self.kv.rule(seq), self.kv.live_rows(seq));
        let filled = rule.filled(live.len());
        let most_cuts = rule.adds_to_scores().then(|| {
            let cut_floats = self.kv.layout.kv_heads * filled.next_multiple_of(BLOCK_KEYS);
            OP_FLOATS / cut_floats.max(1)
        });
        let Attention { row_kinds, first_row, .. } = self.attention;
        let prompt = row_kinds.prompt_rows_in(first_row + live.start..first_row + live.end);
        let cuts = CutSizes::new(self.ctx, self.group()).cut(live.clone(), prompt, most_cuts);
        let table = self.kv.block_tables.row::<i32>(seq);
        let scorer = self.kv.scorer(seq);
        let (mut rotation, mut scale) = (None, self.attention.scale);
        if let Some(rope) = &self.kv.read_rope {
            let (inv_freq, style) = (rope.inv_freqs.row::<f32>(seq), self.attention.rope_style);
            (rotation, scale) =
                (Some(KeyRotation { inv_freq, style }), rope.scales.as_slice()[seq]);
        }
        Sequence { rule, scorer, rotation, scale, live, table, filled, cuts }
    }

    fn group(&self) -> usize {
        let [_, heads, _] = self.attention.query.dims();
        heads / self.kv.layout.kv_heads
    }

    /// One head of a sequence of one cut.
    fn attend_whole(&self, seq: &Sequence<'_>, kv_head: usize, scratch: &mut [f32]) {
        let layout = &self.kv.layout;
        // SAFETY: this head of this sequence is this task's.
        let pages =
            unsafe { SlotPages::new(self.pages, seq.table, layout, self.attention.layer, kv_head) };
        if !seq.rule.adds_to_scores() {
            return self.attend_cut(seq, 0, (kv_head, &pages), None, scratch);
        }
        let (weights, scratch) = scratch.split_at_mut(seq.weight_floats());
        weights.fill(0.0);
        self.attend_cut(seq, 0, (kv_head, &pages), Some(&mut *weights), &mut *scratch);
        seq.score(&pages, weights, scratch);
    }

    fn attend_cuts(&self, seq: &Sequence<'_>) {
        let (layout, adds) = (&self.kv.layout, seq.rule.adds_to_scores());
        let (kv_heads, cuts) = (layout.kv_heads, seq.cuts.cuts());
        let pages = |kv_head| {
            // SAFETY: the cuts only read; after them each head is one task's.
            unsafe { SlotPages::new(self.pages, seq.table, layout, self.attention.layer, kv_head) }
        };
        self.ctx.with_op_memory(|memory| {
            let floats = if adds { seq.weight_floats() } else { 0 };
            let memory = &mut memory[..kv_heads * cuts * floats];
            let mut rows = ViewMut::of(memory, [kv_heads * cuts, floats]);
            let weights = SharedRows::<f32>::new(&mut rows);
            self.ctx.run_with_scratch(kv_heads * cuts, &|scratch, task| {
                // Later rows see more keys in a cache that is not full, and come first.
                let (cut, kv_head) = (cuts - 1 - task / kv_heads, task % kv_heads);
                // SAFETY: each cut of each head has a row.
                let sums = unsafe { weights.row_mut(kv_head * cuts + cut) };
                sums.fill(0.0);
                let pages = pages(kv_head);
                let sums = adds.then_some(sums);
                self.attend_cut(seq, cut, (kv_head, &pages), sums, scratch);
            });
            if adds {
                self.ctx.run_with_scratch(kv_heads, &|scratch, kv_head| {
                    // SAFETY: a head's rows are this task's.
                    let sums = unsafe { weights.row_mut(kv_head * cuts) };
                    for cut in 1..cuts {
                        // SAFETY: as above, and another row.
                        let more = unsafe { weights.row_mut(kv_head * cuts + cut) };
                        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += *more);
                    }
                    seq.score(&pages(kv_head), sums, scratch);
                });
            }
        });
    }

    fn attend_cut(
        &self,
        seq: &Sequence<'_>,
        cut: usize,
        (kv_head, pages): (usize, &SlotPages<'_>),
        weights: Option<&mut [f32]>,
        scratch: &mut [f32],
    ) {
        let (attention, group, cut) = (&self.attention, self.group(), seq.cuts.cut(cut));
        let heads = kv_head * group..(kv_head + 1) * group;
        let (first, before) = (cut.rows.start, cut.rows.start - seq.live.start);
        let rows = |view| QueryRows::new(view, first, heads.clone());
        let task = SlotTask {
            q: rows(attention.query),
            rerotated: attention.rerotated.map(rows),
            out: OutRows::new(self.out, first, heads.clone(), self.kv.layout.value_dim),
            queries: cut.rows.len() * group,
            group,
            position: seq.rule.past + before as i32,
            pages,
            filled: seq.filled,
            protected: seq.rule.protected as usize,
            rotation: seq.rotation,
            scale: seq.scale,
            window: attention.window,
            weights,
            scratch,
        };
        match (self.ctx.simd, cut.of_prompt) {
            #[cfg(target_arch = "x86_64")]
            (Simd::Amx(amx), true) => amx.with_tiles(TileRow::Bytes64, |tiles| {
                self.ctx.simd.run_panels(PromptTask { task, tiles });
            }),
            _ => self.ctx.simd.run(task),
        }
    }
}
