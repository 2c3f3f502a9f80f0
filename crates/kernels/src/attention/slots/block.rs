//! A block of slots on its way into vectors: rows where they lie or widened, scales, positions.

use std::ops::Range;

use crate::attention::blocks::{BLOCK_KEYS, BlockRows, RowType};
use crate::cpu::lanes::Lanes;
use crate::linear::weight_format::WeightFormat;
use crate::pages::row_format::RowFormat;
use crate::pages::slot_pages::{Side, SlotPages};
use crate::quantise::Quantiser;

/// Rows of a block: plain numbers where they lie, or in `wide`, `[BLOCK_KEYS, dim]`. Those that
/// have scales are not multiplied by them: `scales`, `[BLOCK_KEYS]`, count times scores and
/// weights.
#[inline(always)]
pub(super) fn fetch<'b, L: Lanes>(
    lanes: L,
    pages: &'b SlotPages<'_>,
    side: Side,
    slots: Range<usize>,
    direct: Option<RowType>,
    (wide, scales): (&'b mut [f32], &mut [f32]),
) -> BlockRows<'b> {
    let dim = pages.dim(side);
    if let Some(kind) = direct {
        return rows_of(pages, side, slots, kind);
    }
    let format = pages.format(side);
    let first = slots.start;
    for run in pages.runs(slots.clone()) {
        let (numbers, scale_bytes) = pages.rows(side, &run);
        let at = run.slots.start - first..run.slots.end - first;
        let wide = &mut wide[at.start * dim..at.end * dim];
        widen(lanes, format, dim, (numbers, scale_bytes), wide);
        let each = scale_bytes.chunks_exact(format.scale_bytes().max(1));
        for (to, bytes) in scales[at].iter_mut().zip(each) {
            *to = f32::from_le_bytes(*bytes.first_chunk().expect("a scale comes first"));
        }
    }
    BlockRows::of_wide(&wide[..slots.len() * dim], dim)
}

/// How rows are read where they lie, if they can be.
pub(super) fn kind(format: RowFormat) -> Option<RowType> {
    match format {
        RowFormat::F32 => Some(RowType::F32),
        RowFormat::F16 => Some(RowType::F16),
        RowFormat::Bf16 => Some(RowType::Bf16),
        RowFormat::Quantised(_) => None,
    }
}

/// The numbers of rows, without their scales · out: `[rows, dim]`
#[inline(always)]
fn widen<L: Lanes>(
    lanes: L,
    format: RowFormat,
    dim: usize,
    (numbers, scales): (&[u8], &[u8]),
    out: &mut [f32],
) {
    match format {
        RowFormat::F32 => lanes.unpack(WeightFormat::F32, numbers, out),
        RowFormat::F16 => lanes.unpack(WeightFormat::F16, numbers, out),
        RowFormat::Bf16 => lanes.unpack(WeightFormat::Bf16, numbers, out),
        RowFormat::Quantised(quantiser) => {
            let rows = numbers.chunks_exact(quantiser.code_bytes(dim));
            let scales = scales.chunks_exact(quantiser.scale_bytes());
            for ((codes, scale), out) in rows.zip(scales).zip(out.chunks_exact_mut(dim)) {
                widen_codes(quantiser, codes, scale, out);
            }
        }
    }
}

/// Plain loops, which the compiler makes vectors of.
#[inline(always)]
fn widen_codes(quantiser: Quantiser, codes: &[u8], scale: &[u8], out: &mut [f32]) {
    if let Some(values) = quantiser.code_values() {
        match <&[f32; 256]>::try_from(values) {
            Ok(values) => look_up(values, codes, out),
            Err(_) => look_up_pairs(values.try_into().expect("sixteen codes"), codes, out),
        }
        return;
    }
    // Neither the difference nor its size needs more than 32 bits.
    let zero = i32::from_le_bytes(*scale.last_chunk().expect("a zero point comes last"));
    if quantiser.bits() == 8 {
        for (x, code) in out.iter_mut().zip(codes) {
            *x = (i32::from(*code) - zero) as f32;
        }
    } else {
        let (high, low) = out.split_at_mut(codes.len());
        for (x, code) in high.iter_mut().zip(codes) {
            *x = (i32::from(code >> 4) - zero) as f32;
        }
        for (x, code) in low.iter_mut().zip(codes) {
            *x = (i32::from(code & 15) - zero) as f32;
        }
    }
}

#[inline(always)]
fn look_up(values: &[f32; 256], codes: &[u8], out: &mut [f32]) {
    for (x, code) in out.iter_mut().zip(codes) {
        *x = values[usize::from(*code)];
    }
}

#[inline(always)]
fn look_up_pairs(values: &[f32; 16], codes: &[u8], out: &mut [f32]) {
    for (pair, code) in out.as_chunks_mut().0.iter_mut().zip(codes) {
        *pair = [values[usize::from(code >> 4)], values[usize::from(code & 15)]];
    }
}

/// The rows of the next block, to be asked for one by one; rows that will be widened are asked for
/// here, and none returned.
#[inline(always)]
pub(super) fn ahead<'b, L: Lanes>(
    lanes: L,
    pages: &'b SlotPages<'_>,
    side: Side,
    slots: Range<usize>,
    direct: Option<RowType>,
) -> BlockRows<'b> {
    if let Some(kind) = direct {
        return rows_of(pages, side, slots, kind);
    }
    for run in pages.runs(slots) {
        let rows = pages.rows(side, &run).0;
        lanes.prefetch_bytes(rows.as_ptr(), rows.len());
    }
    BlockRows::new(RowType::F32, pages.dim(side))
}

/// Rows of some slots where they lie.
fn rows_of<'b>(
    pages: &'b SlotPages<'_>,
    side: Side,
    slots: Range<usize>,
    kind: RowType,
) -> BlockRows<'b> {
    let mut rows = BlockRows::new(kind, pages.dim(side));
    for run in pages.runs(slots) {
        rows.extend(pages.rows(side, &run).0);
    }
    rows
}

/// When the tokens of a block were: counted from the first query's token on, and as numbers that
/// an f32 has exactly.
pub(super) struct BlockPositions {
    pub(super) first_query: i32,
    pub(super) since: [f32; BLOCK_KEYS],
    pub(super) least: i32,
    pub(super) most: i32,
}

/// Later than any query: no query sees such a slot.
const NEVER: i32 = 1 << 23;

impl BlockPositions {
    #[inline(always)]
    pub(super) fn read(pages: &SlotPages<'_>, slots: Range<usize>, first_query: i32) -> Self {
        let mut since = [NEVER; BLOCK_KEYS];
        for run in pages.runs(slots.clone()) {
            let since = &mut since[run.slots.start - slots.start..];
            for (since, position) in since.iter_mut().zip(pages.positions(&run)) {
                let position = i32::from_le_bytes(*position);
                let distance = position.saturating_sub(first_query).clamp(-NEVER, NEVER);
                *since = if position < 0 { NEVER } else { distance };
            }
        }
        let (mut least, mut most) = (NEVER, -NEVER);
        for since in &since[..slots.len()] {
            (least, most) = (least.min(*since), most.max(*since));
        }
        BlockPositions { first_query, since: since.map(|since| since as f32), least, most }
    }
}
