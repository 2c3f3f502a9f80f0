//! A product of all rows of a call: each task takes some outputs.

use std::ops::Range;
use std::sync::PoisonError;

use half::bf16;
use terrace_device::{SharedRows, View, ViewMut};

use super::panels::{ColumnPanels, RowPanel};
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::matrix::Matrix;
#[cfg(target_arch = "x86_64")]
use crate::linear::packed::AskForOutputs;
use crate::linear::packed::{
    CACHED_ROWS, Inputs, PairRows, PairSums, PassRows, SUM_ROWS, Units, Wanted, convert,
    multiply_pair, prompt_pass_rows, units,
};
use crate::linear::row_kinds::RowList;
use crate::tiles::{PANEL_ROWS, TILE_ROWS, tiles_numbers};

/// `out = x * weight^T + bias` · x: f32 `[tokens, columns]` · out: f32 `[tokens, rows]`
pub(crate) fn project(ctx: &CpuCtx, x: View<'_>, weight: &BiasedWeight, out: ViewMut<'_>) {
    let BiasedWeight { weight, bias } = weight;
    assert_eq!(out.dims(), [x.dims::<2>()[0], weight.rows()], "out of project");
    assert_eq!(x.dims::<2>()[1], weight.columns(), "columns of weight");
    let bias = bias.as_deref();
    Product { ctx, weight, outputs: Outputs::Rows, finish: Finish::Write { bias } }.run(x, out);
}

/// `d_x += d_out * weight` · d_out: f32 `[tokens, rows]` · d_x: f32 `[tokens, columns]`
pub(crate) fn input_gradient(ctx: &CpuCtx, d_out: View<'_>, weight: &Matrix, d_x: ViewMut<'_>) {
    let [tokens, columns] = d_x.dims();
    assert_eq!(weight.columns(), columns, "columns of the weight of input_gradient");
    assert_eq!(d_out.dims(), [tokens, weight.rows()], "d_out of input_gradient");
    Product { ctx, weight, outputs: Outputs::Columns, finish: Finish::Add }.run(d_out, d_x);
}

/// What of a weight is an output; the other is an input.
#[derive(Clone, Copy)]
enum Outputs {
    Rows,
    Columns,
}

/// What becomes of sums.
#[derive(Clone, Copy)]
enum Finish<'a> {
    Write { bias: Option<&'a [f32]> },
    Add,
}

/// Inputs whose weights are in panels at a time; whole blocks of every format.
const SEGMENT: usize = 2048;
/// Numbers of a task's panels, half a second-level cache; one block of the widest format fits.
const PANELS_NUMBERS: usize = 256 * SEGMENT;
/// Numbers of the rows that meet a task's panels while they stay in the other half.
const ROWS_NUMBERS: usize = 1 << 19;

const _: () = assert!(
    PANELS_NUMBERS / 2 + SEGMENT * PANEL_ROWS + CACHED_ROWS / SUM_ROWS * size_of::<PairSums>() / 4
        < SCRATCH_FLOATS,
    "panels, what they are made of and sums fit into a worker's scratch"
);

struct Product<'a> {
    ctx: &'a CpuCtx,
    weight: &'a Matrix,
    outputs: Outputs,
    finish: Finish<'a>,
}

impl Product<'_> {
    /// x: f32 `[tokens, inputs]` · out: f32 `[tokens, outputs]`
    fn run(&self, x: View<'_>, mut out: ViewMut<'_>) {
        let ([tokens, inputs], [_, outputs]) = (x.dims(), out.dims());
        let out = SharedRows::<f32>::new(&mut out);
        let width = self.task_outputs(inputs, outputs);
        // Never poisoned in a way that matters: nobody reads what an earlier product left.
        let memory = &self.ctx.converted_rows;
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        let pass_rows = prompt_pass_rows(inputs);
        for start in (0..tokens).step_by(pass_rows) {
            let prompt = RowList::Run { start, count: pass_rows.min(tokens - start) };
            let rows = PassRows { prompt, generated: RowList::Run { start: 0, count: 0 } };
            let x = &convert(&mut memory, self.ctx, x, rows, Wanted::default());
            self.ctx.run_workers_with_scratch(outputs.div_ceil(width), &|scratch, tasks| {
                let mut units = units(self.ctx.simd);
                for task in tasks {
                    let outputs = task * width..outputs.min((task + 1) * width);
                    for start in (0..inputs).step_by(SEGMENT) {
                        let inputs = start..inputs.min(start + SEGMENT);
                        let outputs = outputs.clone();
                        let segment = Segment { product: self, x, inputs, outputs, out: &out };
                        segment.run(Memory::of(scratch), &mut units);
                    }
                }
            });
        }
    }

    /// Two tasks for each thread, for every task reads all rows; fewer outputs where their panels
    /// would not stay in cache.
    fn task_outputs(&self, inputs: usize, outputs: usize) -> usize {
        let least = match self.outputs {
            Outputs::Rows => 2 * PANEL_ROWS,
            Outputs::Columns => self.weight.format().block_weights().max(2 * PANEL_ROWS),
        };
        let cached = PANELS_NUMBERS / tiles_numbers(inputs.min(SEGMENT)) * PANEL_ROWS;
        let fair = outputs.div_ceil(2 * self.ctx.threads());
        fair.next_multiple_of(least).min(cached / least * least)
    }
}

/// Some outputs of all rows, by some inputs.
struct Segment<'a> {
    product: &'a Product<'a>,
    x: &'a Inputs<'a, 'a>,
    inputs: Range<usize>,
    outputs: Range<usize>,
    out: &'a SharedRows<'a, f32>,
}

impl Segment<'_> {
    fn run(&self, memory: Memory<'_>, units: &mut Units) {
        let Memory { sums, panels, unpacked } = memory;
        let simd = self.product.ctx.simd;
        let numbers = tiles_numbers(self.inputs.len());
        let panels = &mut panels[..self.outputs.len().div_ceil(PANEL_ROWS) * numbers];
        self.make_panels(panels, unpacked);
        let block_rows = ROWS_NUMBERS / (2 * numbers) * SUM_ROWS;
        let count = self.x.rows.prompt.len();
        for start in (0..count).step_by(block_rows) {
            let rows = start..count.min(start + block_rows);
            for (pair, panels) in panels.chunks(2 * numbers).enumerate() {
                let (first, second) = panels.split_at(numbers);
                let panels = [first, if second.is_empty() { first } else { second }];
                let start = self.outputs.start + 2 * PANEL_ROWS * pair;
                let columns = start..self.outputs.end.min(start + 2 * PANEL_ROWS);
                let outputs = PairOutputs { segment: self, columns, rows: rows.clone() };
                multiply_pair(simd, units, panels, &outputs, sums);
            }
        }
    }

    fn make_panels(&self, panels: &mut [bf16], unpacked: &mut [f32]) {
        let Product { ctx, weight, outputs, .. } = *self.product;
        match outputs {
            Outputs::Rows => {
                let starts = self.outputs.clone().step_by(PANEL_ROWS);
                let numbers = tiles_numbers(self.inputs.len());
                for (start, out) in starts.zip(panels.chunks_exact_mut(numbers)) {
                    let rows = start..self.outputs.end.min(start + PANEL_ROWS);
                    let columns = self.inputs.clone();
                    let unpacked = &mut unpacked[..PANEL_ROWS * columns.len()];
                    ctx.simd.run_panels(RowPanel { weight, rows, columns, unpacked, out });
                }
            }
            Outputs::Columns => {
                let (rows, columns) = (self.inputs.clone(), self.outputs.clone());
                let unpacked = &mut unpacked[..2 * columns.len()];
                let out = panels;
                ctx.simd.run_panels(ColumnPanels { weight, columns, rows, unpacked, out });
            }
        }
    }
}

/// Scratch of a worker.
struct Memory<'a> {
    sums: &'a mut [PairSums],
    panels: &'a mut [bf16],
    unpacked: &'a mut [f32],
}

impl<'a> Memory<'a> {
    fn of(scratch: &'a mut [f32]) -> Self {
        // SAFETY: any bytes are sums.
        let (_, memory, _) = unsafe { scratch.align_to_mut::<PairSums>() };
        let (sums, memory) = memory.split_at_mut(CACHED_ROWS / SUM_ROWS);
        // SAFETY: any bytes are numbers.
        let (_, memory, _) = unsafe { memory.align_to_mut::<f32>() };
        let (panels, unpacked) = memory.split_at_mut(PANELS_NUMBERS / 2);
        // SAFETY: any bytes are bf16.
        let (_, panels, _) = unsafe { panels.align_to_mut::<bf16>() };
        Memory { sums, panels, unpacked }
    }
}

/// The outputs of a pair of panels, of some rows of a pass.
struct PairOutputs<'s, 'a> {
    segment: &'s Segment<'a>,
    columns: Range<usize>,
    /// From a tile's first row on.
    rows: Range<usize>,
}

impl PairOutputs<'_, '_> {
    fn part(&self, first: usize, count: usize) -> RowList<'_> {
        self.segment.x.rows.prompt.part(self.rows.start + first, count)
    }
}

impl<'s> PairRows<'s> for PairOutputs<'s, '_> {
    fn count(&self) -> usize {
        self.rows.len()
    }

    fn tiles(&self, group: usize) -> &'s [bf16] {
        let tiles = self.segment.x.prompt_tiles(self.rows.start / TILE_ROWS + group);
        let start = tiles_numbers(self.segment.inputs.start);
        tiles.get(start..start + tiles_numbers(self.segment.inputs.len())).unwrap_or(&[])
    }

    #[cfg(target_arch = "x86_64")]
    fn ask_for_outputs(&self, first: usize, count: usize) {
        let (columns, rows) = (self.columns.clone(), self.part(first, count));
        self.segment.product.ctx.simd.run(AskForOutputs { columns, rows, out: self.segment.out });
    }

    fn finish(&self, first: usize, count: usize, sums: &PairSums) {
        let Segment { product, out, inputs, .. } = self.segment;
        let finish = match product.finish {
            Finish::Write { bias } if inputs.start == 0 => {
                Finish::Write { bias: bias.map(|bias| &bias[self.columns.clone()]) }
            }
            _ => Finish::Add,
        };
        let (columns, rows) = (self.columns.clone(), self.part(first, count));
        product.ctx.simd.run(FinishRows { sums, columns, rows, finish, out });
    }
}

struct FinishRows<'a> {
    sums: &'a PairSums,
    columns: Range<usize>,
    rows: RowList<'a>,
    finish: Finish<'a>,
    out: &'a SharedRows<'a, f32>,
}

impl Kernel for FinishRows<'_> {
    fn reference(self) {
        for i in 0..self.rows.len() {
            let sums = (0..2).flat_map(|side| self.sums.get(i, side));
            // SAFETY: these columns are this task's, and one slice at a time.
            let out = unsafe { self.out.part_mut(self.rows.get(i), self.columns.clone()) };
            for (n, (out, sum)) in out.iter_mut().zip(sums).enumerate() {
                *out = match self.finish {
                    Finish::Write { bias } => sum + bias.map_or(0.0, |bias| bias[n]),
                    Finish::Add => *out + sum,
                };
            }
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        for i in 0..self.rows.len() {
            // SAFETY: these columns are this task's, and one slice at a time.
            let out = unsafe { self.out.part_mut(self.rows.get(i), self.columns.clone()) };
            for (side, out) in out.chunks_mut(PANEL_ROWS).enumerate() {
                let sums = self.sums.get(i, side).chunks_exact(L::COUNT);
                for (n, (out, sums)) in out.chunks_mut(L::COUNT).zip(sums).enumerate() {
                    let added = match self.finish {
                        Finish::Write { bias: None } => lanes.splat(0.0),
                        Finish::Write { bias: Some(bias) } => {
                            lanes.read(&bias[side * PANEL_ROWS + n * L::COUNT..][..out.len()])
                        }
                        Finish::Add => lanes.read(out),
                    };
                    lanes.write(lanes.add(lanes.read(sums), added), out);
                }
            }
        }
    }
}
