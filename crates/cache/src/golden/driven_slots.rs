//! Slots driven by hand through the ops of any device: pages in a scattered order, no model and no
//! engine around them.
//!
//! Every slot that holds no token is poisoned, so an op that reads where it should not gives what
//! is not a number.

use std::sync::Arc;

use terrace_device::{DType, Device, Error};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{
    AttendArgs, CHUNK_TILE_TOKENS, GroupKv, HeadNorms, KvLayout, Ops, RerotatedRope, RopeAngles,
    RopeStyle, RowKinds, SlotKv, SlotLayout, SlotRule, SlotScorer,
};

use super::host_slots::HostSlots;
use super::placed::{Placed, f32s, i32s};
use crate::reference::ChunkRows;

pub struct DrivenSlots<'a> {
    ops: &'a Ops,
    shape: RunShape,
    pages: Placed,
    tables: Vec<i32>,
    table_pages: usize,
    slots: usize,
    scorers: Vec<Option<Arc<dyn SlotScorer>>>,
}

/// Ops, and how many slots a page has that they are tried with.
#[derive(Clone, Copy)]
pub(super) struct PagedOps<'a> {
    pub ops: &'a Ops,
    pub page_slots: usize,
}

#[derive(Clone, Debug)]
pub struct RunShape {
    pub layout: SlotLayout,
    pub heads: usize,
    pub scale: f32,
    pub window: Option<usize>,
    /// Radians by which a position rotates each pair of a query and a key; empty where rows are
    /// given as they are to be.
    pub rotation: Vec<f32>,
}

impl RunShape {
    /// Without a rotation, that of one pair which does not rotate.
    fn frequencies(&self) -> &[f32] {
        if self.rotation.is_empty() { &[0.0] } else { &self.rotation }
    }
}

/// What one sequence adds in a step.
pub struct SeqStep<'r> {
    pub seq: usize,
    pub rule: SlotRule,
    /// Of each layer.
    pub rows: Vec<ChunkRows<'r>>,
}

/// What became of a sequence's step in one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct SeqOut {
    /// `[kv_heads][tokens]`
    pub slots: Vec<u32>,
    /// `[tokens][heads][value_dim]`
    pub out: Vec<f32>,
}

impl<'a> DrivenSlots<'a> {
    /// Room for sequences of `slots` slots each.
    pub fn new(ops: &'a Ops, shape: RunShape, seqs: usize, slots: usize) -> Result<Self, Error> {
        let table_pages = slots.div_ceil(shape.layout.page_slots);
        let pages = seqs * table_pages;
        let tables = SplitMix::new(1).shuffled(pages).into_iter().map(|page| page as i32).collect();
        let bytes = shape.layout.page_bytes();
        let pages = Placed::poisoned(&ops.device(), DType::U8, [pages, bytes])?;
        Ok(DrivenSlots { ops, shape, pages, tables, table_pages, slots, scorers: Vec::new() })
    }

    /// With scores that sequences bring along, `[seqs]`. For the CPU alone.
    pub fn with_scorers(self, scorers: Vec<Option<Arc<dyn SlotScorer>>>) -> Self {
        DrivenSlots { scorers, ..self }
    }

    pub fn host_slots(&self) -> Result<HostSlots, Error> {
        Ok(HostSlots {
            layout: self.shape.layout,
            tables: self.tables.clone(),
            table_pages: self.table_pages,
            slots: self.slots,
            bytes: self.pages.bytes()?,
        })
    }

    /// Puts slots that were changed by hand into the pages.
    pub(super) fn put(&mut self, slots: &HostSlots) -> Result<(), Error> {
        self.pages.write(&slots.bytes)
    }

    /// One step of some sequences: slots are chosen once, then every layer attends. Gives what
    /// became of each sequence, layer by layer.
    pub fn step(&mut self, steps: &[SeqStep<'_>]) -> Result<Vec<Vec<SeqOut>>, Error> {
        self.run(steps, None)
    }

    /// As [`step`](Self::step), with slots that somebody else has chosen · slots:
    /// `[layers, tokens, kv_heads]`
    pub(super) fn step_into(
        &mut self,
        steps: &[SeqStep<'_>],
        slots: &[i32],
    ) -> Result<Vec<Vec<SeqOut>>, Error> {
        self.run(steps, Some(slots))
    }

    fn run(
        &mut self,
        steps: &[SeqStep<'_>],
        given: Option<&[i32]>,
    ) -> Result<Vec<Vec<SeqOut>>, Error> {
        let arrays = StepArrays::new(steps, &self.shape);
        let (ops, device, layout) = (self.ops, self.ops.device(), self.shape.layout);
        let (seqs, tokens) = (steps.len(), arrays.row_seqs.len());
        let vector = |values: &[i32]| Placed::of(&device, values, [values.len()]);
        let tables: Vec<i32> =
            steps.iter().flat_map(|step| self.table(step.seq)).copied().collect();
        let tables = Placed::of(&device, &tables, [seqs, self.table_pages])?;
        let rules = Placed::of(&device, &arrays.rules, [seqs, SlotRule::WORDS])?;
        let (live_starts, row_seqs) = (vector(&arrays.live_starts)?, vector(&arrays.row_seqs)?);
        let tiles = Placed::of(&device, &arrays.chunk_tiles, [arrays.chunk_tiles.len() / 2, 2])?;
        let dims = [layout.layers, tokens, layout.kv_heads];
        let mut slots = match given {
            Some(slots) => Placed::of(&device, slots, dims)?,
            None => Placed::poisoned(&device, DType::I32, dims)?,
        };
        let scorers: Vec<_> =
            steps.iter().map_while(|step| self.scorers.get(step.seq).cloned()).collect();
        let mut kv = SlotKv {
            layout,
            pages: self.pages.view_mut(),
            block_tables: tables.view(),
            rules: rules.view(),
            live_starts: live_starts.view(),
            slots: slots.view_mut(),
            rerotated_positions: None,
            scorers: &scorers,
            read_rope: None,
            singles: arrays.singles,
            chunk_tiles: tiles.view(),
            row_seqs: row_seqs.view(),
        };
        if matches!(device, Device::Cpu) {
            kv.check(tokens);
        }
        if given.is_none() {
            ops.choose_slots(&mut kv);
        }
        let mut kv = GroupKv::Slots(kv);
        let mut outs = Vec::new();
        for layer in 0..layout.layers {
            outs.push(attend(ops, &self.shape, steps, &arrays, &mut kv, layer)?);
        }
        let slots = i32s(&slots.bytes()?);
        Ok((0..seqs).map(|seq| arrays.outs_of(seq, &slots, &outs, &layout)).collect())
    }

    fn table(&self, seq: usize) -> &[i32] {
        &self.tables[seq * self.table_pages..(seq + 1) * self.table_pages]
    }
}

/// The attended rows of one layer, `[tokens][heads][value_dim]`.
fn attend(
    ops: &Ops,
    shape: &RunShape,
    steps: &[SeqStep<'_>],
    arrays: &StepArrays,
    kv: &mut GroupKv<'_>,
    layer: usize,
) -> Result<Vec<f32>, Error> {
    let (device, act, layout) = (ops.device(), ops.activation(), shape.layout);
    let tokens = arrays.row_seqs.len();
    let qkv: Vec<f32> =
        steps.iter().flat_map(|step| side_by_side(&step.rows[layer], shape)).collect();
    assert_eq!(act, DType::F32, "slots driven by hand are computed in f32");
    let mut qkv = Placed::of(&device, &qkv, [tokens, qkv.len() / tokens])?;
    let placed = |angles: &[f32]| Placed::of(&device, angles, [tokens, angles.len() / tokens]);
    let [cos, sin] = [placed(&arrays.angles[0])?, placed(&arrays.angles[1])?];
    let [rerotated_cos, rerotated_sin] =
        [placed(&arrays.rerotated[0])?, placed(&arrays.rerotated[1])?];
    let wanted = ops.attend_scratch(&KvLayout::Slots(layout), shape.heads);
    let mut scratch = Placed::poisoned(&device, wanted.dtype, [tokens, wanted.columns])?;
    let mut out = Placed::poisoned(&device, act, [tokens, shape.heads * layout.value_dim])?;
    let frequencies = shape.frequencies();
    let inv_freq = Placed::of(&device, frequencies, [frequencies.len()])?;
    let rerotated = RerotatedRope {
        angles: RopeAngles { cos: rerotated_cos.view(), sin: rerotated_sin.view() },
        inv_freq: inv_freq.view(),
    };
    let args = AttendArgs {
        qkv: qkv.view_mut(),
        heads: shape.heads,
        row_kinds: RowKinds::Generated,
        first_row: 0,
        norms: HeadNorms::NONE,
        angles: RopeAngles { cos: cos.view(), sin: sin.view() },
        rerotated: steps.iter().any(|step| step.rule.rerotated > 0).then_some(rerotated),
        rope_style: RopeStyle::Halves,
        layer,
        scale: shape.scale,
        window: shape.window,
        scratch: scratch.view_mut(),
        out: out.view_mut(),
    };
    ops.attend(args, kv);
    Ok(f32s(&out.bytes()?))
}

/// A chunk's queries, keys and values, token by token.
fn side_by_side(rows: &ChunkRows<'_>, shape: &RunShape) -> Vec<f32> {
    let SlotLayout { kv_heads, key_dim, value_dim, .. } = shape.layout;
    let parts = [
        (rows.query, shape.heads, key_dim),
        (rows.keys, kv_heads, key_dim),
        (rows.values, kv_heads, value_dim),
    ];
    let mut all = Vec::new();
    for token in 0..rows.tokens {
        for (numbers, heads, dim) in parts {
            assert_eq!(numbers.len(), heads * rows.tokens * dim, "rows of a chunk");
            let of_head = |head: usize| &numbers[(head * rows.tokens + token) * dim..][..dim];
            all.extend((0..heads).flat_map(of_head));
        }
    }
    all
}

/// What a step computes, as arrays on the host.
struct StepArrays {
    rules: Vec<i32>,
    live_starts: Vec<i32>,
    row_seqs: Vec<i32>,
    singles: usize,
    chunk_tiles: Vec<i32>,
    /// Cosines and sines of the rows' positions, and of those that protected keys see.
    angles: [Vec<f32>; 2],
    rerotated: [Vec<f32>; 2],
}

impl StepArrays {
    fn new(steps: &[SeqStep<'_>], shape: &RunShape) -> StepArrays {
        let live = |step: &SeqStep<'_>| step.rows[0].tokens;
        let singles = steps.iter().take_while(|step| live(step) == 1).count();
        let mut arrays = StepArrays {
            rules: steps.iter().flat_map(|step| step.rule.to_words()).collect(),
            live_starts: vec![0],
            row_seqs: Vec::new(),
            singles,
            chunk_tiles: Vec::new(),
            angles: [Vec::new(), Vec::new()],
            rerotated: [Vec::new(), Vec::new()],
        };
        for (seq, step) in steps.iter().enumerate() {
            assert_eq!(step.rows.len(), shape.layout.layers, "a chunk for each layer");
            arrays.row_seqs.extend(vec![seq as i32; live(step)]);
            arrays.live_starts.push(arrays.row_seqs.len() as i32);
            if singles <= seq {
                let firsts = (0..live(step)).step_by(CHUNK_TILE_TOKENS);
                arrays.chunk_tiles.extend(firsts.flat_map(|first| [seq as i32, first as i32]));
            }
            for position in step.rule.past..step.rule.past + live(step) as i32 {
                add_angles(&mut arrays.angles, shape.frequencies(), position);
                let rerotated = position - step.rule.rerotated;
                add_angles(&mut arrays.rerotated, shape.frequencies(), rerotated);
            }
        }
        arrays
    }

    /// slots: `[layers, tokens, kv_heads]` · outs: for each layer `[tokens, columns]`
    fn outs_of(
        &self,
        seq: usize,
        slots: &[i32],
        outs: &[Vec<f32>],
        layout: &SlotLayout,
    ) -> Vec<SeqOut> {
        let rows = self.live_starts[seq] as usize..self.live_starts[seq + 1] as usize;
        let tokens = self.row_seqs.len();
        let of_layer = |(layer, out): (usize, &Vec<f32>)| {
            let slot = |head: usize, row: usize| {
                slots[(layer * tokens + row) * layout.kv_heads + head] as u32
            };
            let of_head = |head: usize| rows.clone().map(move |row| slot(head, row));
            let columns = out.len() / tokens;
            SeqOut {
                slots: (0..layout.kv_heads).flat_map(of_head).collect(),
                out: out[rows.start * columns..rows.end * columns].to_vec(),
            }
        };
        outs.iter().enumerate().map(of_layer).collect()
    }
}

fn add_angles([cos, sin]: &mut [Vec<f32>; 2], frequencies: &[f32], position: i32) {
    for freq in frequencies {
        let angle = f64::from(*freq) * f64::from(position);
        cos.push(angle.cos() as f32);
        sin.push(angle.sin() as f32);
    }
}
