//! A random step over slots: pages with some tokens in them, rules, and live rows.
//!
//! Pages are handed out in random order, and what holds no token is poisoned, so an op that reads
//! where it should not gives NaN.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::Device;

use super::SplitMix;
use super::placed::Placed;
use crate::pages::row_format::RowFormat;
use crate::pages::slot_kv::{ReadRope, SlotKv};
use crate::pages::slot_layout::{SlotLayout, SlotSide};
use crate::pages::slot_rule::{SlotRule, SlotRuleKind};
use crate::pages::slot_scorer::{HeadSlots, SlotScorer};

#[derive(Clone, Debug)]
pub(super) struct SlotSpec {
    pub layout: SlotLayout,
    /// Of each sequence its rule and live rows.
    pub seqs: Vec<(SlotRule, usize)>,
    /// See [`SlotKv::scorers`].
    pub scorers: Vec<Option<Arc<dyn SlotScorer>>>,
}

impl SlotSpec {
    /// Leading sequences of one row. One row behind others is a tile like theirs.
    fn singles(&self) -> usize {
        self.seqs.iter().take_while(|(_, live)| *live == 1).count()
    }
}

/// A score that forgets, and looks at everything it is given.
#[derive(Debug)]
pub(super) struct Fading;

impl SlotScorer for Fading {
    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        let seen = head.seen_tokens as f32;
        for (slot, score) in scores.iter_mut().enumerate() {
            let note = |notes: &[f32]| notes.get(slot).copied().unwrap_or(0.0);
            let gained = head.weights[slot] / head.chunk_tokens as f32;
            let known = note(head.value_norms) - note(head.errors);
            *score = *score / 2.0 + gained + known / 8.0 + head.positions[slot] as f32 / seen;
        }
    }
}

/// All on the host.
#[derive(Clone)]
pub(super) struct SlotCase {
    pub spec: SlotSpec,
    pub pages: Vec<u8>,
    page_count: usize,
    table_pages: usize,
    block_tables: Vec<i32>,
    live_starts: Vec<i32>,
    row_seqs: Vec<i32>,
    chunk_tiles: Vec<i32>,
    /// `[layers, tokens, kv_heads]`
    pub slots: Vec<i32>,
}

/// A case's arrays where a device has them.
pub(super) struct PlacedSlots {
    layout: SlotLayout,
    singles: usize,
    pages: Placed,
    slots: Placed,
    /// Tables, rules, live_starts, chunk_tiles, row_seqs.
    arrays: [Placed; 5],
    scorers: Vec<Option<Arc<dyn SlotScorer>>>,
}

/// What pages hold in the slots that sequences use, in one fixed order.
#[derive(Default)]
pub(super) struct Held {
    pub rows: Vec<f32>,
    pub positions: Vec<i32>,
    pub scores: Vec<f32>,
    pub notes: Vec<f32>,
}

impl SlotCase {
    pub fn new(spec: SlotSpec, random: &mut SplitMix) -> Self {
        let layout = spec.layout;
        let pages_of =
            |(rule, live): &(SlotRule, usize)| rule.filled(*live).div_ceil(layout.page_slots);
        let table_pages = spec.seqs.iter().map(pages_of).max().unwrap_or(0) + 1;
        let page_count = spec.seqs.iter().map(pages_of).sum::<usize>() + 2;
        let mut live_starts = vec![0];
        let mut row_seqs = Vec::new();
        let mut chunk_tiles = Vec::new();
        let singles = spec.singles();
        for (seq, (_, live)) in spec.seqs.iter().enumerate() {
            let start = row_seqs.len() as i32;
            if singles <= seq {
                let tiles = (0..*live).step_by(crate::CHUNK_TILE_TOKENS);
                chunk_tiles.extend(tiles.flat_map(|row| [seq as i32, row as i32]));
            }
            live_starts.push(start + *live as i32);
            row_seqs.extend(std::iter::repeat_n(seq as i32, *live));
        }
        let mut block_tables = vec![-1; spec.seqs.len() * table_pages];
        let mut free = random.shuffled(page_count).into_iter();
        for (seq, used) in spec.seqs.iter().map(pages_of).enumerate() {
            let table = &mut block_tables[seq * table_pages..][..used];
            table.fill_with(|| free.next().expect("pages for all") as i32);
        }
        let mut case = SlotCase {
            slots: vec![-1; layout.layers * row_seqs.len() * layout.kv_heads],
            pages: vec![0xff; page_count * page_bytes(&layout)],
            spec,
            page_count,
            table_pages,
            block_tables,
            live_starts,
            row_seqs,
            chunk_tiles,
        };
        case.fill_past(random);
        case
    }

    pub fn tokens(&self) -> usize {
        self.row_seqs.len()
    }

    /// Says of the last sequence that it is none, as only a GPU's step may.
    pub fn drop_last(&mut self) {
        let (rule, _) = self.spec.seqs.last_mut().expect("a sequence");
        rule.past = -1;
    }

    /// These pages, but those of the last sequence as `last` has them.
    pub fn pages_of_last_from(&self, pages: &[u8], last: &[u8]) -> Vec<u8> {
        let bytes = page_bytes(&self.spec.layout);
        let mut joined = pages.to_vec();
        for &page in self.block_tables[self.block_tables.len() - self.table_pages..].iter() {
            if let Ok(page) = usize::try_from(page) {
                let place = page * bytes..(page + 1) * bytes;
                joined[place.clone()].copy_from_slice(&last[place]);
            }
        }
        joined
    }

    /// The live rows of a sequence in the batch.
    pub fn live_rows(&self, seq: usize) -> Range<usize> {
        self.live_starts[seq] as usize..self.live_starts[seq + 1] as usize
    }

    /// A step of one sequence with some of its live rows, given as rows of the batch, when those
    /// before them are in their slots.
    pub fn part(&self, seq: usize, rows: Range<usize>, pages: Vec<u8>) -> SlotCase {
        let (mut rule, _) = self.spec.seqs[seq];
        rule.past += (rows.start - self.live_rows(seq).start) as i32;
        let width = self.spec.layout.kv_heads;
        let layers = self.slots.chunks_exact(self.tokens() * width);
        let slots = layers.flat_map(|slots| &slots[rows.start * width..rows.end * width]);
        let tiles =
            (0..rows.len()).step_by(crate::CHUNK_TILE_TOKENS).flat_map(|row| [0, row as i32]);
        SlotCase {
            spec: SlotSpec {
                layout: self.spec.layout,
                seqs: vec![(rule, rows.len())],
                scorers: self.spec.scorers.get(seq).cloned().into_iter().collect(),
            },
            pages,
            page_count: self.page_count,
            table_pages: self.table_pages,
            block_tables: self.block_tables[seq * self.table_pages..][..self.table_pages].to_vec(),
            live_starts: vec![0, rows.len() as i32],
            row_seqs: vec![0; rows.len()],
            chunk_tiles: if rows.len() == 1 { Vec::new() } else { tiles.collect() },
            slots: slots.copied().collect(),
        }
    }

    pub fn place(&self, device: &Device) -> PlacedSlots {
        let (layout, seqs) = (self.spec.layout, self.spec.seqs.len());
        let rules: Vec<i32> = self.spec.seqs.iter().flat_map(|(rule, _)| rule.to_words()).collect();
        let slots = [layout.layers, self.tokens(), layout.kv_heads];
        PlacedSlots {
            layout,
            singles: self.spec.singles(),
            pages: Placed::of(device, &self.pages, [self.page_count, page_bytes(&layout)]),
            slots: Placed::of(device, &self.slots, slots),
            arrays: [
                Placed::of(device, &self.block_tables, [seqs, self.table_pages]),
                Placed::of(device, &rules, [seqs, SlotRule::WORDS]),
                Placed::of(device, &self.live_starts, [seqs + 1]),
                Placed::of(device, &self.chunk_tiles, [self.chunk_tiles.len() / 2, 2]),
                Placed::of(device, &self.row_seqs, [self.tokens()]),
            ],
            scorers: self.spec.scorers.clone(),
        }
    }

    /// The position of each live row.
    pub fn row_positions(&self) -> Vec<i32> {
        let seqs = self.spec.seqs.iter();
        seqs.flat_map(|(rule, live)| (0..*live as i32).map(|row| rule.past + row)).collect()
    }

    /// The same with other keys of the tokens in a layer's slots, which are f32: `change` gets a
    /// token's sequence, its position and its key.
    pub fn with_keys(&self, layer: usize, change: impl Fn(usize, i32, &mut [f32])) -> SlotCase {
        let (layout, mut changed) = (self.spec.layout, self.clone());
        let (offsets, bytes) = (layout.offsets(layer), layout.keys.row_bytes(layout.key_dim));
        for (seq, (rule, live)) in self.spec.seqs.iter().enumerate() {
            for (head, slot) in (0..layout.kv_heads)
                .flat_map(|head| (0..rule.filled(*live)).map(move |s| (head, s)))
            {
                let (start, row) = self.slot_place(seq, head, slot);
                let position = &self.pages[start + offsets.positions + 4 * row..];
                let position = i32::from_le_bytes(*position.first_chunk().expect("four bytes"));
                let key = &mut changed.pages[start + offsets.keys + row * bytes..][..bytes];
                let mut numbers = vec![0.0; layout.key_dim];
                layout.keys.decode(key, &[], &mut numbers);
                change(seq, position, &mut numbers);
                layout.keys.encode(&numbers, key, &mut []);
            }
        }
        changed
    }

    /// The sequence of each live row.
    pub fn row_seqs(&self) -> &[i32] {
        &self.row_seqs
    }

    /// What these pages hold in a layer once the live rows are there.
    pub fn held(&self, pages: &[u8], layer: usize) -> Held {
        let layout = self.spec.layout;
        let mut held = Held::default();
        for seq in 0..self.spec.seqs.len() {
            let (rule, live) = &self.spec.seqs[seq];
            for head in 0..layout.kv_heads {
                for slot in 0..rule.filled(*live) {
                    let at = self.slot_place(seq, head, slot);
                    self.read_slot(pages, at, layer, &mut held);
                }
            }
        }
        held
    }

    /// Bytes to a page's start, and the row in its arrays.
    fn slot_place(&self, seq: usize, head: usize, slot: usize) -> (usize, usize) {
        let layout = self.spec.layout;
        let table = &self.block_tables[seq * self.table_pages..];
        let page = table[slot / layout.page_slots] as usize;
        (page * page_bytes(&layout), head * layout.page_slots + slot % layout.page_slots)
    }

    fn read_slot(&self, pages: &[u8], at: (usize, usize), layer: usize, held: &mut Held) {
        let (layout, (start, row)) = (self.spec.layout, at);
        let offsets = layout.offsets(layer);
        let word = |place: usize| -> [u8; 4] {
            let at = start + place + 4 * row;
            pages[at..at + 4].try_into().expect("four bytes")
        };
        for SlotSide { format, dim, rows, scales } in layout.sides(layer) {
            let (bytes, scale) = (format.row_bytes(dim), format.scale_bytes());
            let mut numbers_of = vec![0.0; dim];
            format.decode(
                &pages[start + rows + row * bytes..][..bytes],
                &pages[start + scales + row * scale..][..scale],
                &mut numbers_of,
            );
            held.rows.extend(numbers_of);
        }
        held.positions.push(i32::from_le_bytes(word(offsets.positions)));
        if layout.notes.scores {
            held.scores.push(f32::from_le_bytes(word(offsets.scores)));
        }
        if layout.notes.value_norms {
            held.notes.push(f32::from_le_bytes(word(offsets.value_norms)));
        }
        if layout.notes.errors {
            held.notes.push(f32::from_le_bytes(word(offsets.errors)));
        }
    }

    /// Random tokens of earlier steps.
    fn fill_past(&mut self, random: &mut SplitMix) {
        let layout = self.spec.layout;
        for seq in 0..self.spec.seqs.len() {
            let (rule, _) = self.spec.seqs[seq];
            let filled = rule.filled(0);
            for layer in 0..layout.layers {
                for head in 0..layout.kv_heads {
                    let positions = past_positions(&rule, random);
                    for (slot, position) in positions.into_iter().enumerate().take(filled) {
                        let at = self.slot_place(seq, head, slot);
                        self.write_slot(at, layer, position, random);
                    }
                }
            }
        }
    }

    fn write_slot(
        &mut self,
        at: (usize, usize),
        layer: usize,
        position: i32,
        random: &mut SplitMix,
    ) {
        let (layout, (start, row)) = (self.spec.layout, at);
        let offsets = layout.offsets(layer);
        for SlotSide { format, dim, rows, scales } in layout.sides(layer) {
            let (bytes, scale) = (format.row_bytes(dim), format.scale_bytes());
            let (mut row_bytes, mut scale_bytes) = (vec![0; bytes], vec![0; scale]);
            format.encode(&random.numbers(dim), &mut row_bytes, &mut scale_bytes);
            self.pages[start + rows + row * bytes..][..bytes].copy_from_slice(&row_bytes);
            self.pages[start + scales + row * scale..][..scale].copy_from_slice(&scale_bytes);
        }
        // Few different scores, so that some are equal.
        let score = random.below(40) as f32 / 16.0;
        let (norm, error) = (random.number().abs(), random.below(20) as f32 / 64.0);
        let notes = [
            (true, offsets.positions, position.to_le_bytes()),
            (layout.notes.scores, offsets.scores, score.to_le_bytes()),
            (layout.notes.value_norms, offsets.value_norms, norm.to_le_bytes()),
            (layout.notes.errors, offsets.errors, error.to_le_bytes()),
        ];
        for (_, place, bytes) in notes.into_iter().filter(|(wanted, ..)| *wanted) {
            self.pages[start + place + 4 * row..][..4].copy_from_slice(&bytes);
        }
    }
}

impl PlacedSlots {
    pub fn kv(&mut self) -> SlotKv<'_> {
        self.kv_with(None)
    }

    pub fn kv_with<'a>(&'a mut self, read_rope: Option<ReadRope<'a>>) -> SlotKv<'a> {
        let [tables, rules, live_starts, chunk_tiles, row_seqs] = &self.arrays;
        SlotKv {
            layout: self.layout,
            pages: self.pages.view_mut(),
            block_tables: tables.view(),
            rules: rules.view(),
            live_starts: live_starts.view(),
            slots: self.slots.view_mut(),
            rerotated_positions: None,
            scorers: &self.scorers,
            read_rope,
            singles: self.singles,
            chunk_tiles: chunk_tiles.view(),
            row_seqs: row_seqs.view(),
        }
    }

    pub fn pages(&self) -> Vec<u8> {
        self.pages.bytes()
    }

    pub fn slots(&self) -> Vec<i32> {
        self.slots.to_ids()
    }
}

/// Pages may be longer than their layout.
fn page_bytes(layout: &SlotLayout) -> usize {
    layout.page_bytes() + 16
}

/// Of the tokens in a head's slots: in order while there was room, then any that may have stayed.
fn past_positions(rule: &SlotRule, random: &mut SplitMix) -> Vec<i32> {
    let (past, slots) = (rule.past as usize, rule.slots as usize);
    if past <= slots || rule.kind == SlotRuleKind::Keep {
        return (0..past as i32).collect();
    }
    let protected = rule.protected as usize;
    let others = random.shuffled(past - protected).into_iter().take(slots - protected);
    (0..rule.protected).chain(others.map(|i| (protected + i) as i32)).collect()
}

/// A name to report.
pub(super) fn name(format: RowFormat) -> String {
    match format {
        RowFormat::Quantised(quantiser) => format!("{quantiser:?}"),
        plain => format!("{plain:?}"),
    }
}
