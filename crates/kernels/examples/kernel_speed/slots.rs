//! Attention over the slots of a full cache. What goes before it, the rotations and the storing of
//! live rows, is measured too.

use terrace_device::{Buffer, DType, View, ViewMut};
use terrace_kernels::{
    AttendArgs, GroupKv, HeadNorms, KvLayout, Ops, RopeAngles, RopeStyle, RowFormat, SlotKv,
    SlotLayout, SlotNotes, SlotRule, SlotRuleKind,
};

use crate::attention::{Heads, Measured, PAGE_TOKENS, Step, fill};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    Unused,
    Added,
}

pub struct Slots {
    layout: SlotLayout,
    weights: Weights,
    heads: usize,
    step: Step,
    /// Numbers of the live rows.
    rows: Vec<u32>,
    pages: Buffer,
    qkv: Vec<f32>,
    angles: [Vec<f32>; 2],
    scratch: Vec<f32>,
    out: Vec<f32>,
    table: Vec<i32>,
    rules: Vec<i32>,
    live_starts: Vec<i32>,
    slots: Vec<i32>,
}

impl Slots {
    pub fn new(ops: &Ops, heads: &Heads, step: Step, format: RowFormat, weights: Weights) -> Self {
        let Heads { heads, kv_heads, head_dim } = *heads;
        let layout = SlotLayout {
            layers: 1,
            kv_heads,
            page_slots: PAGE_TOKENS,
            key_dim: head_dim,
            value_dim: head_dim,
            keys: format,
            values: format,
            notes: SlotNotes { scores: true, ..SlotNotes::default() },
        };
        let (tokens, seq_pages) = (step.seqs * step.live, step.keys.div_ceil(PAGE_TOKENS));
        let past = step.keys - step.live;
        let first_chunk = if weights == Weights::Added { 1 } else { step.keys as i32 };
        let rule = SlotRule { first_chunk, ..SlotRule::new(SlotRuleKind::Scored, past, step.keys) };
        let slots = (0..step.seqs).flat_map(|_| past..step.keys);
        let scratch = ops.attend_scratch(&KvLayout::Slots(layout), heads);
        Slots {
            layout,
            weights,
            heads,
            step,
            rows: (0..tokens as u32).collect(),
            pages: pages(&layout, step, seq_pages),
            qkv: (0..tokens * (heads + 2 * kv_heads) * head_dim)
                .map(|i| (i % 61) as f32 / 61.0 - 0.5)
                .collect(),
            angles: [vec![1.0; tokens * head_dim / 2], vec![0.0; tokens * head_dim / 2]],
            scratch: vec![0.0; tokens * scratch.columns],
            out: vec![0.0; tokens * heads * head_dim],
            table: (0..(step.seqs * seq_pages) as i32).collect(),
            rules: (0..step.seqs).flat_map(|_| rule.to_words()).collect(),
            live_starts: (0..=step.seqs).map(|seq| (seq * step.live) as i32).collect(),
            slots: slots.flat_map(|slot| vec![slot as i32; kv_heads]).collect(),
        }
    }

    pub fn measured<'a>(&'a mut self, ops: &'a Ops) -> Measured<'a> {
        let Slots { layout, heads, step, weights, .. } = *self;
        let (tokens, pages) = (step.seqs * step.live, self.table.len());
        let mut kv = GroupKv::Slots(SlotKv {
            layout,
            pages: self.pages.view_mut(DType::U8, [pages, layout.page_bytes()]),
            block_tables: View::of(&self.table, [step.seqs, pages / step.seqs]),
            rules: View::of(&self.rules, [step.seqs, SlotRule::WORDS]),
            live_starts: View::of(&self.live_starts, [step.seqs + 1]),
            slots: ViewMut::of(&mut self.slots, [1, tokens, layout.kv_heads]),
            rerotated_positions: None,
            scorers: &[],
            read_rope: None,
            singles: 0,
            chunk_tiles: View::of::<i32>(&[], [0, 2]),
            row_seqs: View::of::<i32>(&[], [0]),
        });
        let row_kinds = step.row_kinds(&self.rows);
        let (qkv, scratch, out) = (&mut self.qkv, &mut self.scratch, &mut self.out);
        let [cos, sin] = &self.angles;
        let columns = [qkv.len(), scratch.len(), out.len()].map(|count| count / tokens);
        let weights = if weights == Weights::Added { " and weights" } else { "" };
        Measured {
            name: format!("slots of {:?}{weights}", layout.keys),
            bytes: step.seqs * step.keys * layout.page_bytes() / PAGE_TOKENS,
            run: Box::new(move || {
                let angles = [tokens, cos.len() / tokens];
                let args = AttendArgs {
                    qkv: ViewMut::of(qkv, [tokens, columns[0]]),
                    heads,
                    row_kinds,
                    first_row: 0,
                    norms: HeadNorms::NONE,
                    angles: RopeAngles { cos: View::of(cos, angles), sin: View::of(sin, angles) },
                    rerotated: None,
                    rope_style: RopeStyle::Halves,
                    layer: 0,
                    scale: 0.125,
                    window: None,
                    scratch: ViewMut::of(scratch, [tokens, columns[1]]),
                    out: ViewMut::of(out, [tokens, columns[2]]),
                };
                ops.attend(args, &mut kv);
            }),
        }
    }
}

/// Pages whose slots are their tokens' positions.
fn pages(layout: &SlotLayout, step: Step, seq_pages: usize) -> Buffer {
    let pages = step.seqs * seq_pages;
    let mut buffer = Buffer::zeroed(pages * layout.page_bytes(), "slots").expect("memory");
    let offsets = layout.offsets(0);
    for (index, page) in buffer.bytes_mut().chunks_exact_mut(layout.page_bytes()).enumerate() {
        let (keys, rest) = page.split_at_mut(offsets.positions);
        match layout.keys {
            RowFormat::F32 => fill(keys, DType::F32),
            RowFormat::F16 | RowFormat::Bf16 => fill(keys, DType::F16),
            // Small numbers, zero points and scales alike.
            RowFormat::Quantised(_) => {
                keys.chunks_exact_mut(4).for_each(|x| x.copy_from_slice(&[17, 5, 0x80, 0x3b]));
            }
        }
        let first = index % seq_pages * layout.page_slots;
        for (i, position) in
            rest[..4 * layout.kv_heads * layout.page_slots].as_chunks_mut().0.iter_mut().enumerate()
        {
            *position = ((first + i % layout.page_slots) as i32).to_le_bytes();
        }
    }
    buffer
}
