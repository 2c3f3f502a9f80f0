//! `out = x * weights^T + bias` with weights in panels, or a gated unit of two such products.
//!
//! A task is a pair of panels with all rows. Prompts meet them as bf16, unpacked into the
//! worker's cache; generated rows meet them as they are packed.

use half::bf16;
use std::ops::Range;
use std::sync::PoisonError;
use terrace_device::{SharedRows, View, ViewMut};

use super::bf16_products::Bf16Products;
use super::finish::Finish;
#[cfg(target_arch = "x86_64")]
use super::finish_rows::AskForOutputs;
use super::finish_rows::FinishRows;
use super::inputs::{Inputs, PassRows, Wanted, convert, pass_rows};
#[cfg(target_arch = "x86_64")]
use super::int8_products::{Int8Memory, Int8Products, LEAST_ROWS, tile_row};
use super::int8_rows::INT8_ROWS;
use super::int8_vectors::Int8Vectors;
use super::int16_products::Int16Products;
use super::packed_matrix::PackedKind;
use super::packed_weight::PackedWeight;
use super::pair_product::{CACHED_ROWS, PairRows, Units, multiply_pair, units};
use super::pair_sums::{PairSums, SUM_ROWS};
use super::panel_pair::{PairedPanel, PanelPair, panel_pair, panel_pairs};
use super::unpack_panel::UnpackPanel;
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
use crate::linear::row_kinds::{RowKinds, RowList};
use crate::tiles::{TILE_ROWS, tiles_numbers};

/// x: f32 `[tokens, columns]` · out: f32 `[tokens, rows of all weights]`, or of one if gated
pub(crate) struct PackedProduct<'a> {
    pub(crate) x: View<'a>,
    pub(crate) row_kinds: RowKinds<'a>,
    pub(crate) weights: &'a [PackedWeight],
    pub(crate) finish: Finish,
    pub(crate) out: ViewMut<'a>,
}

pub(crate) fn project(ctx: &CpuCtx, mut product: PackedProduct<'_>) {
    product.check();
    let PackedProduct { x, row_kinds, weights, finish, ref mut out } = product;
    let [tokens, columns] = x.dims();
    let out = SharedRows::<f32>::new(out);
    let wanted = product_wants(ctx, weights);
    // Never poisoned in a way that matters: nobody reads what an earlier product left.
    let mut memory = ctx.converted_rows.lock().unwrap_or_else(PoisonError::into_inner);
    let (prompt, generated) = (row_kinds.prompt(tokens), row_kinds.generated(tokens));
    let pass_rows = pass_rows(columns);
    for start in (0..prompt.len().max(generated.len())).step_by(pass_rows) {
        let rows = PassRows {
            prompt: prompt.part(start, pass_rows),
            generated: generated.part(start, pass_rows),
        };
        let inputs = convert(&mut memory, ctx, x, rows, wanted);
        ctx.run_workers_with_scratch(panel_pairs(weights, finish), &|scratch, tasks| {
            let mut units = units(ctx.simd);
            for task in tasks {
                let panel_pair = panel_pair(weights, finish, task);
                let task = PairTask { ctx, inputs: &inputs, wanted, panel_pair, finish, out: &out };
                task.run(scratch, &mut units);
            }
        });
    }
}

/// What generated rows become.
fn product_wants(ctx: &CpuCtx, weights: &[PackedWeight]) -> Wanted {
    let any =
        |wanted: fn(PackedKind) -> bool| weights.iter().any(|packed| wanted(packed.weight.kind()));
    let quantised = any(|kind| matches!(kind, PackedKind::Quantised(_)));
    let bytes = ctx.simd.multiplies_int8();
    Wanted {
        bytes: quantised && bytes,
        words: quantised && !bytes,
        tiles: any(|kind| kind == PackedKind::Bf16),
    }
}

impl PackedProduct<'_> {
    fn check(&self) {
        let [tokens, columns] = self.x.dims();
        assert!(columns <= CpuCtx::MAX_COLUMNS, "{columns} columns of {}", CpuCtx::MAX_COLUMNS);
        let fits = |packed: &PackedWeight| packed.weight.columns() == columns;
        assert!(self.weights.iter().all(fits), "columns of weights");
        let mut rows = self.weights.iter().map(|packed| packed.weight.rows());
        let width = match self.finish {
            Finish::SideBySide => rows.sum(),
            Finish::Gated(_) => rows.next().expect("gate and up"),
        };
        assert_eq!(self.out.dims(), [tokens, width], "out of project");
        self.row_kinds.check(tokens);
    }
}

const _: () = assert!(
    16 * CpuCtx::MAX_COLUMNS + CACHED_ROWS / SUM_ROWS * size_of::<PairSums>() / 4 < SCRATCH_FLOATS,
    "two panels in bf16 and their sums fit into a worker's scratch"
);

/// Two panels and all rows of a pass.
struct PairTask<'a> {
    ctx: &'a CpuCtx,
    inputs: &'a Inputs<'a, 'a>,
    wanted: Wanted,
    panel_pair: PanelPair<'a>,
    finish: Finish,
    out: &'a SharedRows<'a, f32>,
}

impl PairTask<'_> {
    fn run(&self, scratch: &mut [f32], units: &mut Units) {
        // SAFETY: any bytes are sums.
        let (_, memory, _) = unsafe { scratch.align_to_mut::<PairSums>() };
        if 0 < self.inputs.rows.prompt.len() {
            self.multiply_prompts(memory, units);
        }
        let (sums, memory) = memory.split_first_mut().expect("scratch takes a pair's sums");
        let generated = self.inputs.rows.generated;
        for first in (0..generated.len()).step_by(SUM_ROWS) {
            let rows = generated.part(first, SUM_ROWS);
            self.multiply_generated(first..first + rows.len(), memory, sums, units);
            self.finish_rows(sums, rows);
        }
    }

    fn multiply_prompts(&self, memory: &mut [PairSums], units: &mut Units) {
        let numbers = tiles_numbers(self.panel_pair.columns());
        let (sums, memory) = memory.split_at_mut(CACHED_ROWS / SUM_ROWS);
        // SAFETY: any bytes are bf16.
        let (_, memory, _) = unsafe { memory.align_to_mut::<bf16>() };
        let (first, second) = memory.split_at_mut(numbers);
        let first = self.bf16_panel(self.panel_pair.first, first);
        let second = match self.panel_pair.second {
            Some(panel) => self.bf16_panel(panel, &mut second[..numbers]),
            None => first,
        };
        let panels = [first, second];
        multiply_pair(self.ctx.simd, units, panels, &PromptRows { task: self }, sums);
    }

    /// Some generated rows, at most [`SUM_ROWS`].
    fn multiply_generated(
        &self,
        rows: Range<usize>,
        memory: &mut [PairSums],
        sums: &mut PairSums,
        units: &mut Units,
    ) {
        match (units, self.panel_pair.format()) {
            #[cfg(target_arch = "x86_64")]
            (Some(units), Some(format)) if LEAST_ROWS <= rows.len() => {
                // SAFETY: any bytes are such memory.
                let memory = unsafe { &mut memory.align_to_mut::<Int8Memory>().1[0] };
                let tiles = units.tiles(tile_row(format));
                for (side, panel) in self.panel_pair.panels() {
                    self.ctx.simd.run_panels(Int8Products {
                        tiles,
                        format,
                        panel: panel.bytes(),
                        rows: rows.len(),
                        x: |group| self.inputs.int8_tiles(rows.start / INT8_ROWS + group),
                        memory: &mut *memory,
                        sums: &mut *sums,
                        side,
                    });
                }
            }
            _ => self.multiply_generated_by_vectors(rows.start, rows.len(), sums),
        }
    }

    fn multiply_generated_by_vectors(&self, first: usize, rows: usize, sums: &mut PairSums) {
        let simd = self.ctx.simd;
        let both = self.panel_pair.second.filter(|_| self.panel_pair.format().is_some());
        for (side, panel) in self.panel_pair.panels() {
            match panel.packed.weight.kind() {
                PackedKind::Quantised(_) if self.wanted.bytes && both.is_some() && side == 1 => {
                    // Was multiplied with the first.
                }
                PackedKind::Quantised(format) if self.wanted.bytes => {
                    simd.run_panels(Int8Vectors {
                        format,
                        panel: panel.bytes(),
                        second: both.map(|second| second.bytes()),
                        rows,
                        x: |group| self.inputs.int8_tiles(first / INT8_ROWS + group),
                        write: |n, row, products: &[f32; 16]| sums.set(row, side + n, products),
                    });
                }
                PackedKind::Quantised(format) => simd.run_panels(Int16Products {
                    format,
                    panel: panel.bytes(),
                    rows,
                    x: |row| self.inputs.words(first + row),
                    write: |row, products: &[f32; 16]| sums.set(row, side, products),
                }),
                PackedKind::Bf16 => {
                    for before in (0..rows).step_by(TILE_ROWS) {
                        simd.run_panels(Bf16Products {
                            rows: (rows - before).min(TILE_ROWS),
                            tiles: self.inputs.generated_tiles((first + before) / TILE_ROWS),
                            panel: panel.bf16(),
                            write: |row, products: &[f32; 16]| {
                                sums.set(before + row, side, products);
                            },
                        });
                    }
                }
            }
        }
    }

    /// A panel's weights in bf16: where they are, or unpacked into `memory`.
    fn bf16_panel<'m>(&'m self, panel: PairedPanel<'m>, memory: &'m mut [bf16]) -> &'m [bf16] {
        match panel.packed.weight.kind() {
            PackedKind::Bf16 => panel.bf16(),
            PackedKind::Quantised(format) => {
                let unpack = UnpackPanel { format, panel: panel.bytes(), out: &mut *memory };
                self.ctx.simd.run_panels(unpack);
                memory
            }
        }
    }

    fn finish_rows(&self, sums: &PairSums, rows: RowList<'_>) {
        let (panel_pair, finish, out) = (self.panel_pair, self.finish, self.out);
        self.ctx.simd.run(FinishRows { sums, panel_pair, finish, rows, out });
    }
}

/// Rows of prompts on their way through a pair.
struct PromptRows<'t, 'a> {
    task: &'t PairTask<'a>,
}

impl PromptRows<'_, '_> {
    fn part(&self, first: usize, count: usize) -> RowList<'_> {
        self.task.inputs.rows.prompt.part(first, count)
    }
}

impl<'t> PairRows<'t> for PromptRows<'t, '_> {
    fn count(&self) -> usize {
        self.task.inputs.rows.prompt.len()
    }

    fn tiles(&self, group: usize) -> &'t [bf16] {
        self.task.inputs.prompt_tiles(group)
    }

    #[cfg(target_arch = "x86_64")]
    fn ask_for_outputs(&self, first: usize, count: usize) {
        let (columns, rows) = (self.task.panel_pair.out_columns(), self.part(first, count));
        self.task.ctx.simd.run(AskForOutputs { columns, rows, out: self.task.out });
    }

    fn finish(&self, first: usize, count: usize, sums: &PairSums) {
        self.task.finish_rows(sums, self.part(first, count));
    }
}
