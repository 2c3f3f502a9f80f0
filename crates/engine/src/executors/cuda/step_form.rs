//! The shape of a step: which arrays it has, how long they are, and where each lies.
//!
//! A step's arrays lie one after the other in one block of memory, the same on the host and on the
//! device, in an order that follows from the shape alone. So steps of the same shape have the same
//! addresses, which is what a recorded graph needs.

use std::ops::Range;

use terrace_cache::KvGroup;
use terrace_kernels::sampling::SampleRow;
use terrace_kernels::{KvLayout, SlotRule};
use terrace_model::{LayerLocation, layer_locations};

use super::captured_kind::CapturedKind;
use crate::executors::batch::{Batch, Segment};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepForm {
    pub tokens: usize,
    pub wanted: usize,
    /// Rows that the device samples.
    pub sampled: usize,
    pub segments: Vec<SegmentForm>,
}

/// Sequences with one kind of cache.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SegmentForm {
    pub rows: Range<usize>,
    pub seqs: usize,
    /// Leading sequences of one row each.
    pub singles: usize,
    pub tiles: usize,
    /// Pairs of numbers that turn when keys are read; 0 where keys are stored rotated.
    pub read_pairs: usize,
    pub locations: Vec<LayerLocation>,
    pub groups: Vec<GroupForm>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupForm {
    pub layout: KvLayout,
    pub table_pages: usize,
    /// Whether protected keys may be re-rotated.
    pub turns: bool,
}

/// Which array, all of 32-bit numbers; those of a segment have its number, then its group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Array {
    Ids,
    Positions,
    Wanted,
    SampleRows,
    RowSeqs(usize),
    LiveStarts(usize),
    Tiles(usize),
    /// f32, as the next.
    InvFreqs(usize),
    RopeScales(usize),
    PastTokens(usize),
    CommitSlots(usize, usize),
    Tables(usize, usize),
    Rules(usize, usize),
    RerotatedPositions(usize, usize),
}

/// Where an array lies: bytes from the start, and how many numbers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArraySpan {
    pub start: usize,
    pub count: usize,
}

/// Of every array: kernels read 16 bytes at a time.
const ALIGNMENT: usize = 128;

impl StepForm {
    /// The shape of a filled batch.
    pub fn of(batch: &Batch, sampled: usize) -> Self {
        StepForm {
            tokens: batch.ids().len(),
            wanted: batch.wanted().len(),
            sampled,
            segments: batch.segments().iter().map(SegmentForm::of).collect(),
        }
    }

    /// One token for each of `seqs` sequences of one kind, all of them sampled.
    pub fn decoding(kind: &CapturedKind, seqs: usize) -> Self {
        let group = |(group, pages): (&KvGroup, &usize)| GroupForm {
            layout: group.layout,
            table_pages: *pages,
            turns: kind.rerotates_keys,
        };
        let segment = SegmentForm {
            rows: 0..seqs,
            seqs,
            singles: seqs,
            tiles: 0,
            read_pairs: kind.read_pairs,
            locations: layer_locations(kind.groups.iter().map(|group| &group.layers[..])),
            groups: kind.groups.iter().zip(&kind.table_pages).map(group).collect(),
        };
        StepForm { tokens: seqs, wanted: seqs, sampled: seqs, segments: vec![segment] }
    }

    /// Every array with its place, in order.
    pub fn places(&self) -> Vec<(Array, ArraySpan)> {
        let mut end = 0;
        let mut places = Vec::new();
        let mut add = |array, count: usize| {
            places.push((array, ArraySpan { start: end, count }));
            end += (4 * count).next_multiple_of(ALIGNMENT);
        };
        add(Array::Ids, self.tokens);
        add(Array::Positions, self.tokens);
        add(Array::Wanted, self.wanted);
        add(Array::SampleRows, self.sampled * SampleRow::BYTES / 4);
        for (index, segment) in self.segments.iter().enumerate() {
            let rows = segment.rows.len();
            add(Array::RowSeqs(index), rows);
            add(Array::LiveStarts(index), segment.seqs + 1);
            add(Array::Tiles(index), 2 * segment.tiles);
            add(Array::InvFreqs(index), segment.seqs * segment.read_pairs);
            add(Array::RopeScales(index), if 0 < segment.read_pairs { segment.seqs } else { 0 });
            add(Array::PastTokens(index), segment.seqs);
            for (number, group) in segment.groups.iter().enumerate() {
                add(Array::Tables(index, number), segment.seqs * group.table_pages);
                match group.layout {
                    KvLayout::Dense(_) => add(Array::CommitSlots(index, number), rows),
                    KvLayout::Slots(_) => {
                        add(Array::Rules(index, number), segment.seqs * SlotRule::WORDS);
                        let rerotated = if group.turns { rows } else { 0 };
                        add(Array::RerotatedPositions(index, number), rerotated);
                    }
                }
            }
        }
        places
    }

    pub fn bytes(&self) -> usize {
        let last = self.places().last().map_or(0, |(_, place)| place.start + 4 * place.count);
        last.next_multiple_of(ALIGNMENT)
    }
}

impl SegmentForm {
    fn of(segment: &Segment) -> Self {
        let group = |group: usize| GroupForm {
            layout: segment.layout(group),
            table_pages: segment.block_tables(group).1,
            turns: !segment.rerotated_positions(group).is_empty(),
        };
        SegmentForm {
            rows: segment.rows(),
            seqs: segment.seqs(),
            singles: segment.singles(),
            tiles: segment.tiles().len() / 2,
            read_pairs: segment.read_rope()[0].len() / segment.seqs(),
            locations: segment.locations().to_vec(),
            groups: (0..segment.groups()).map(group).collect(),
        }
    }
}
