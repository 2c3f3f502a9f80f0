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
use super::pair_sums::{PairSums, SUM_ROWS};
use super::panel_pair::{PairedPanel, PanelPair, panel_pair, panel_pairs};
#[cfg(target_arch = "x86_64")]
use super::tile_products::CACHED_BLOCKS;
use super::unpack_panel::UnpackPanel;
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::{Simd, TileRow, TileUnits, Tiles};
use crate::linear::row_kinds::{RowKinds, RowList};
#[cfg(target_arch = "x86_64")]
use crate::tiles::TILE_NUMBERS;
use crate::tiles::{TILE_ROWS, tiles_numbers};

/// Rows of prompts whose sums a worker keeps in its cache, until all parts of them are added.
const CACHED_ROWS: usize = 64;

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
            let mut units = units(ctx);
            for task in tasks {
                let panel_pair = panel_pair(weights, finish, task);
                let task = PairTask { ctx, inputs: &inputs, wanted, panel_pair, finish, out: &out };
                task.run(scratch, &mut units);
            }
        });
    }
}

/// The matrix units, where there are any.
#[cfg(target_arch = "x86_64")]
type Units = Option<TileUnits>;
#[cfg(not(target_arch = "x86_64"))]
type Units = ();

#[cfg(target_arch = "x86_64")]
fn units(ctx: &CpuCtx) -> Units {
    match ctx.simd {
        Simd::Amx(amx) => Some(TileUnits::of(amx)),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn units(_ctx: &CpuCtx) -> Units {}

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
            Finish::SideBySide(_) => rows.sum(),
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
        match units {
            #[cfg(target_arch = "x86_64")]
            Some(units) => self.multiply_by_tiles(units.tiles(TileRow::Bytes64), panels, sums),
            _ => {
                let (prompt, sums) = (self.inputs.rows.prompt, &mut sums[0]);
                for row in (0..prompt.len()).step_by(SUM_ROWS) {
                    self.multiply_by_vectors(
                        sums,
                        self.tiles_from(row),
                        panels,
                        prompt.len() - row,
                    );
                    self.finish_rows(sums, prompt.part(row, SUM_ROWS));
                }
            }
        }
    }

    /// The tiles of 32 rows of prompts.
    fn tiles_from(&self, row: usize) -> [&[bf16]; 2] {
        [0, 1].map(|i| self.inputs.prompt_tiles(row / TILE_ROWS + i))
    }

    /// All rows of prompts with both panels · sums: of [`CACHED_ROWS`]
    #[cfg(target_arch = "x86_64")]
    fn multiply_by_tiles(&self, units: Tiles<'_>, panels: [&[bf16]; 2], sums: &mut [PairSums]) {
        let (prompt, numbers) = (self.inputs.rows.prompt, panels[0].len());
        let segments = (numbers / TILE_NUMBERS).div_ceil(CACHED_BLOCKS);
        let segment_numbers = (numbers / TILE_NUMBERS).div_ceil(segments) * TILE_NUMBERS;
        let cached_rows = if segments == 1 { SUM_ROWS } else { CACHED_ROWS };
        for first in (0..prompt.len()).step_by(cached_rows) {
            let rows = first..prompt.len().min(first + cached_rows);
            for segment in (0..numbers).step_by(segment_numbers) {
                let segment = segment..numbers.min(segment + segment_numbers);
                let panels = panels.map(|panel| &panel[segment.clone()]);
                for (row, sums) in rows.clone().step_by(SUM_ROWS).zip(&mut *sums) {
                    if segment.end == numbers {
                        self.ask_for_outputs(prompt.part(row, SUM_ROWS));
                    }
                    let tiles = self.tiles_from(row);
                    let tiles = tiles.map(|tiles| tiles.get(segment.clone()).unwrap_or(&[]));
                    sums.multiply(units, tiles, panels, 0 < segment.start);
                }
            }
            for (row, sums) in rows.step_by(SUM_ROWS).zip(&*sums) {
                self.finish_rows(sums, prompt.part(row, SUM_ROWS));
            }
        }
    }

    /// Up to 32 rows of prompts with both panels.
    fn multiply_by_vectors(
        &self,
        sums: &mut PairSums,
        groups: [&[bf16]; 2],
        panels: [&[bf16]; 2],
        rows: usize,
    ) {
        for (side, panel) in panels.into_iter().enumerate() {
            for (group, tiles) in groups.into_iter().enumerate() {
                let before = group * TILE_ROWS;
                if rows <= before {
                    break;
                }
                self.ctx.simd.run_panels(Bf16Products {
                    rows: (rows - before).min(TILE_ROWS),
                    tiles,
                    panel,
                    write: |row, products: &[f32; 16]| sums.set(before + row, side, products),
                });
            }
        }
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

    /// Memory that [`finish_rows`](Self::finish_rows) will write arrives during the products.
    #[cfg(target_arch = "x86_64")]
    fn ask_for_outputs(&self, rows: RowList<'_>) {
        self.ctx.simd.run(AskForOutputs {
            columns: self.panel_pair.out_columns(),
            rows,
            out: self.out,
        });
    }

    fn finish_rows(&self, sums: &PairSums, rows: RowList<'_>) {
        let (panel_pair, finish, out) = (self.panel_pair, self.finish, self.out);
        self.ctx.simd.run(FinishRows { sums, panel_pair, finish, rows, out });
    }
}
