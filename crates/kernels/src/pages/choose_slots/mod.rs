//! Slots for the live rows of a step, in every head of every layer of a group.
//!
//! kv.slots: i32 `[layers, tokens, kv_heads]`, written · kv.pages: positions and scores of the
//! chosen slots become the new tokens' and 0.
//!
//! A policy's `SlotTable` (`cache`) is the specification: while slots are free, tokens fill them in
//! order; then [`SlotRuleKind::Recent`] goes round behind the protected slots, and
//! [`SlotRuleKind::Scored`] takes those with the lowest selection, the lowest first, of equal ones
//! the lower slot. The selection of a slot is its score, divided by its age where the rule says so,
//! joined with its error where the rule says so. Tokens that are protected or within the grace do
//! not leave.
//!
//! Roofline: reads 8 to 16 bytes a slot and head, a fiftieth of what attention over them reads.

pub(crate) mod cuda;
mod selection;

use terrace_device::SharedRows;

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::Simd;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_pages::{Note, SlotPages};
use crate::pages::slot_rule::{SlotRule, SlotRuleKind};
use selection::Selection;

pub(crate) fn choose_slots(ctx: &CpuCtx, kv: &mut SlotKv<'_>) {
    let [layers, tokens, kv_heads] = kv.slots.dims();
    kv.check(tokens);
    let seqs = kv.seqs();
    // SAFETY: pages and slots are written through these alone, and each task has a layer of a
    // sequence to itself: no two sequences share a page that is written.
    let pages = unsafe { SharedRows::<u8>::of_shared(&kv.pages) };
    // SAFETY: as above.
    let slots = unsafe { SharedRows::<i32>::of_shared(&kv.slots) };
    ctx.run_with_scratch(layers * seqs, &|scratch, task| {
        let (layer, seq) = (task / seqs, task % seqs);
        let (rule, live) = (kv.rule(seq), kv.live_rows(seq));
        // SAFETY: these rows of this layer are this task's.
        let chosen = unsafe { slots.part_mut(layer, live.start * kv_heads..live.end * kv_heads) };
        let table = kv.block_tables.row::<i32>(seq);
        let head = |head| {
            // SAFETY: one head at a time, of this task's layer and sequence.
            unsafe { SlotPages::new(&pages, table, &kv.layout, layer, head) }
        };
        choose(ctx.simd, &rule, kv_heads, head, chosen, scratch);
        for (i, slot) in chosen.iter().enumerate() {
            let head = head(i % kv_heads);
            head.set_position(*slot as usize, rule.past + (i / kv_heads) as i32);
            if kv.layout.notes.scores {
                head.set_note(Note::Score, *slot as usize, 0.0);
            }
        }
    });
}

/// chosen: `[live, kv_heads]`
fn choose<'a>(
    simd: Simd,
    rule: &SlotRule,
    kv_heads: usize,
    head: impl Fn(usize) -> SlotPages<'a>,
    chosen: &mut [i32],
    scratch: &mut [f32],
) {
    let live = chosen.len() / kv_heads;
    let is_full = rule.slots <= rule.past;
    let in_order = |first: i32| move |i: usize| first + (i / kv_heads) as i32;
    match rule.kind {
        SlotRuleKind::Scored if is_full => {
            // A first chunk that filled the cache has left no scores to decide by.
            if rule.past == rule.slots && rule.first_chunk == rule.slots {
                let room = rule.slots - rule.grace - live as i32;
                let first = rule.initial.min(room).max(rule.protected);
                fill(chosen, in_order(first));
            } else {
                let selection = Selection::new(rule, kv_heads, &head);
                for index in 0..kv_heads {
                    selection.lowest(simd, &head(index), live, scratch, |i, slot| {
                        chosen[i * kv_heads + index] = slot;
                    });
                }
            }
        }
        SlotRuleKind::Recent => {
            let round = rule.slots - rule.protected;
            fill(chosen, |i| match rule.past + (i / kv_heads) as i32 {
                position if position < rule.slots => position,
                position => rule.protected + (position - rule.slots) % round,
            });
        }
        SlotRuleKind::Keep | SlotRuleKind::Scored => fill(chosen, in_order(rule.past)),
    }
}

fn fill(chosen: &mut [i32], slot: impl Fn(usize) -> i32) {
    chosen.iter_mut().enumerate().for_each(|(i, chosen)| *chosen = slot(i));
}
