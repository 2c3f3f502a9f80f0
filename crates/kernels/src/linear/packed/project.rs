//! `out = x * weights^T + bias` with weights in strips, or a gated unit of two such products.
//!
//! A task is a panel: two strips with all rows. Prompts meet them as bf16, unpacked into the
//! worker's cache; generated rows meet them as they are packed.

use half::bf16;
use std::ops::Range;
use std::sync::PoisonError;
use terrace_device::{SharedRows, View, ViewMut};

use super::bf16_products::Bf16Products;
#[cfg(target_arch = "x86_64")]
use super::bf16_rows::TILE_NUMBERS;
use super::bf16_rows::{TILE_ROWS, tiles_numbers};
#[cfg(target_arch = "x86_64")]
use super::byte_products::{ByteMemory, ByteProducts, LEAST_ROWS, tile_row};
use super::byte_rows::BYTE_ROWS;
use super::byte_vectors::ByteVectors;
use super::finish::Finish;
#[cfg(target_arch = "x86_64")]
use super::finish_rows::AskForOutputs;
use super::finish_rows::FinishRows;
use super::inputs::{Inputs, PassRows, Wanted, convert, pass_rows};
use super::panel::{Panel, PanelStrip, panel, panels};
use super::panel_sums::{PANEL_ROWS, PanelSums};
use super::strip_matrix::StripKind;
use super::strip_part::StripPart;
#[cfg(target_arch = "x86_64")]
use super::tile_products::CACHED_BLOCKS;
use super::unpack_strip::UnpackStrip;
use super::word_products::WordProducts;
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::{Simd, TileRow, TileUnits, Tiles};
use crate::linear::row_origins::{RowList, RowOrigins};

/// Rows of prompts whose sums a worker keeps in its cache, until all parts of them are added.
const CACHED_ROWS: usize = 64;

/// x: f32 `[tokens, columns]` · out: f32 `[tokens, rows of all parts]`, or of one part if gated
pub(crate) struct StripProduct<'a> {
    pub(crate) x: View<'a>,
    pub(crate) origins: RowOrigins<'a>,
    pub(crate) parts: &'a [StripPart],
    pub(crate) finish: Finish,
    pub(crate) out: ViewMut<'a>,
}

pub(crate) fn project(ctx: &CpuCtx, mut product: StripProduct<'_>) {
    product.check();
    let StripProduct { x, origins, parts, finish, ref mut out } = product;
    let [tokens, columns] = x.dims();
    let out = SharedRows::<f32>::new(out);
    let wanted = product_wants(ctx, parts);
    // Never poisoned in a way that matters: nobody reads what an earlier product left.
    let mut memory = ctx.converted_rows.lock().unwrap_or_else(PoisonError::into_inner);
    let (prompt, generated) = (origins.prompt(), origins.generated(tokens));
    let pass_rows = pass_rows(columns);
    for start in (0..prompt.len().max(generated.len())).step_by(pass_rows) {
        let rows = PassRows {
            prompt: prompt.part(start, pass_rows),
            generated: generated.part(start, pass_rows),
        };
        let inputs = convert(&mut memory, ctx, x, rows, wanted);
        ctx.run_workers_with_scratch(panels(parts, finish), &|scratch, tasks| {
            let mut units = units(ctx);
            for task in tasks {
                let panel = panel(parts, finish, task);
                let task = PanelTask { ctx, inputs: &inputs, wanted, panel, finish, out: &out };
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
fn product_wants(ctx: &CpuCtx, parts: &[StripPart]) -> Wanted {
    let any = |wanted: fn(StripKind) -> bool| parts.iter().any(|part| wanted(part.weight.kind()));
    let quantised = any(|kind| matches!(kind, StripKind::Quantised(_)));
    let bytes = ctx.simd.multiplies_bytes();
    Wanted {
        bytes: quantised && bytes,
        words: quantised && !bytes,
        tiles: any(|kind| kind == StripKind::Bf16),
    }
}

impl StripProduct<'_> {
    fn check(&self) {
        let [tokens, columns] = self.x.dims();
        assert!(columns <= CpuCtx::MAX_COLUMNS, "{columns} columns of {}", CpuCtx::MAX_COLUMNS);
        let fits = |part: &StripPart| part.weight.columns() == columns;
        assert!(self.parts.iter().all(fits), "columns of weights");
        let mut rows = self.parts.iter().map(|part| part.weight.rows());
        let width = match self.finish {
            Finish::SideBySide => rows.sum(),
            Finish::Gated(_) => rows.next().expect("gate and up"),
        };
        assert_eq!(self.out.dims(), [tokens, width], "out of project");
        self.origins.check(tokens);
    }
}

const _: () = assert!(
    16 * CpuCtx::MAX_COLUMNS + CACHED_ROWS / PANEL_ROWS * size_of::<PanelSums>() / 4
        < SCRATCH_FLOATS,
    "two strips in bf16 and their sums fit into a worker's scratch"
);

/// Two strips and all rows of a pass.
struct PanelTask<'a> {
    ctx: &'a CpuCtx,
    inputs: &'a Inputs<'a, 'a>,
    wanted: Wanted,
    panel: Panel<'a>,
    finish: Finish,
    out: &'a SharedRows<'a, f32>,
}

impl PanelTask<'_> {
    fn run(&self, scratch: &mut [f32], units: &mut Units) {
        // SAFETY: any bytes are sums.
        let (_, memory, _) = unsafe { scratch.align_to_mut::<PanelSums>() };
        if 0 < self.inputs.rows.prompt.len() {
            self.multiply_prompts(memory, units);
        }
        let (sums, memory) = memory.split_first_mut().expect("scratch takes a panel's sums");
        let generated = self.inputs.rows.generated;
        for first in (0..generated.len()).step_by(PANEL_ROWS) {
            let rows = generated.part(first, PANEL_ROWS);
            self.multiply_generated(first..first + rows.len(), memory, sums, units);
            self.finish_rows(sums, rows);
        }
    }

    fn multiply_prompts(&self, memory: &mut [PanelSums], units: &mut Units) {
        let numbers = tiles_numbers(self.panel.columns());
        let (sums, memory) = memory.split_at_mut(CACHED_ROWS / PANEL_ROWS);
        // SAFETY: any bytes are bf16.
        let (_, memory, _) = unsafe { memory.align_to_mut::<bf16>() };
        let (first, second) = memory.split_at_mut(numbers);
        let first = self.bf16_strip(self.panel.first, first);
        let second = match self.panel.second {
            Some(strip) => self.bf16_strip(strip, &mut second[..numbers]),
            None => first,
        };
        let strips = [first, second];
        match units {
            #[cfg(target_arch = "x86_64")]
            Some(units) => self.multiply_by_tiles(units.tiles(TileRow::Bytes64), strips, sums),
            _ => {
                let (prompt, sums) = (self.inputs.rows.prompt, &mut sums[0]);
                for row in (0..prompt.len()).step_by(PANEL_ROWS) {
                    self.multiply_by_vectors(
                        sums,
                        self.tiles_from(row),
                        strips,
                        prompt.len() - row,
                    );
                    self.finish_rows(sums, prompt.part(row, PANEL_ROWS));
                }
            }
        }
    }

    /// The tiles of 32 rows of prompts.
    fn tiles_from(&self, row: usize) -> [&[bf16]; 2] {
        [0, 1].map(|i| self.inputs.prompt_tiles(row / TILE_ROWS + i))
    }

    /// All rows of prompts with both strips · sums: of [`CACHED_ROWS`]
    #[cfg(target_arch = "x86_64")]
    fn multiply_by_tiles(&self, units: Tiles<'_>, strips: [&[bf16]; 2], sums: &mut [PanelSums]) {
        let (prompt, numbers) = (self.inputs.rows.prompt, strips[0].len());
        let parts = (numbers / TILE_NUMBERS).div_ceil(CACHED_BLOCKS);
        let part_numbers = (numbers / TILE_NUMBERS).div_ceil(parts) * TILE_NUMBERS;
        let cached_rows = if parts == 1 { PANEL_ROWS } else { CACHED_ROWS };
        for first in (0..prompt.len()).step_by(cached_rows) {
            let rows = first..prompt.len().min(first + cached_rows);
            for part in (0..numbers).step_by(part_numbers) {
                let part = part..numbers.min(part + part_numbers);
                let strips = strips.map(|strip| &strip[part.clone()]);
                for (row, sums) in rows.clone().step_by(PANEL_ROWS).zip(&mut *sums) {
                    if part.end == numbers {
                        self.ask_for_outputs(prompt.part(row, PANEL_ROWS));
                    }
                    let tiles = self.tiles_from(row);
                    let tiles = tiles.map(|tiles| tiles.get(part.clone()).unwrap_or(&[]));
                    sums.multiply(units, tiles, strips, 0 < part.start);
                }
            }
            for (row, sums) in rows.step_by(PANEL_ROWS).zip(&*sums) {
                self.finish_rows(sums, prompt.part(row, PANEL_ROWS));
            }
        }
    }

    /// Up to 32 rows of prompts with both strips.
    fn multiply_by_vectors(
        &self,
        sums: &mut PanelSums,
        groups: [&[bf16]; 2],
        strips: [&[bf16]; 2],
        rows: usize,
    ) {
        for (side, strip) in strips.into_iter().enumerate() {
            for (group, tiles) in groups.into_iter().enumerate() {
                let before = group * TILE_ROWS;
                if rows <= before {
                    break;
                }
                self.ctx.simd.run_strips(Bf16Products {
                    rows: (rows - before).min(TILE_ROWS),
                    tiles,
                    strip,
                    write: |row, products: &[f32; 16]| sums.set(before + row, side, products),
                });
            }
        }
    }

    /// Some generated rows, at most [`PANEL_ROWS`].
    fn multiply_generated(
        &self,
        rows: Range<usize>,
        memory: &mut [PanelSums],
        sums: &mut PanelSums,
        units: &mut Units,
    ) {
        match (units, self.panel.format()) {
            #[cfg(target_arch = "x86_64")]
            (Some(units), Some(format)) if LEAST_ROWS <= rows.len() => {
                // SAFETY: any bytes are such memory.
                let memory = unsafe { &mut memory.align_to_mut::<ByteMemory>().1[0] };
                let tiles = units.tiles(tile_row(format));
                for (side, strip) in self.panel.strips() {
                    self.ctx.simd.run_strips(ByteProducts {
                        tiles,
                        format,
                        strip: strip.bytes(),
                        rows: rows.len(),
                        x: |group| self.inputs.byte_tiles(rows.start / BYTE_ROWS + group),
                        memory: &mut *memory,
                        sums: &mut *sums,
                        side,
                    });
                }
            }
            _ => self.multiply_generated_by_vectors(rows.start, rows.len(), sums),
        }
    }

    fn multiply_generated_by_vectors(&self, first: usize, rows: usize, sums: &mut PanelSums) {
        let simd = self.ctx.simd;
        let both = self.panel.second.filter(|_| self.panel.format().is_some());
        for (side, strip) in self.panel.strips() {
            match strip.part.weight.kind() {
                StripKind::Quantised(_) if self.wanted.bytes && both.is_some() && side == 1 => {
                    // Was multiplied with the first.
                }
                StripKind::Quantised(format) if self.wanted.bytes => simd.run_strips(ByteVectors {
                    format,
                    strip: strip.bytes(),
                    second: both.map(|second| second.bytes()),
                    rows,
                    x: |group| self.inputs.byte_tiles(first / BYTE_ROWS + group),
                    write: |n, row, products: &[f32; 16]| sums.set(row, side + n, products),
                }),
                StripKind::Quantised(format) => simd.run_strips(WordProducts {
                    format,
                    strip: strip.bytes(),
                    rows,
                    x: |row| self.inputs.words(first + row),
                    write: |row, products: &[f32; 16]| sums.set(row, side, products),
                }),
                StripKind::Bf16 => {
                    for before in (0..rows).step_by(TILE_ROWS) {
                        simd.run_strips(Bf16Products {
                            rows: (rows - before).min(TILE_ROWS),
                            tiles: self.inputs.generated_tiles((first + before) / TILE_ROWS),
                            strip: strip.bf16(),
                            write: |row, products: &[f32; 16]| {
                                sums.set(before + row, side, products);
                            },
                        });
                    }
                }
            }
        }
    }

    /// A strip's weights in bf16: where they are, or unpacked into `memory`.
    fn bf16_strip<'m>(&'m self, strip: PanelStrip<'m>, memory: &'m mut [bf16]) -> &'m [bf16] {
        match strip.part.weight.kind() {
            StripKind::Bf16 => strip.bf16(),
            StripKind::Quantised(format) => {
                let unpack = UnpackStrip { format, strip: strip.bytes(), out: &mut *memory };
                self.ctx.simd.run_strips(unpack);
                memory
            }
        }
    }

    /// Memory that [`finish_rows`](Self::finish_rows) will write arrives during the products.
    #[cfg(target_arch = "x86_64")]
    fn ask_for_outputs(&self, rows: RowList<'_>) {
        self.ctx.simd.run(AskForOutputs { columns: self.panel.out_columns(), rows, out: self.out });
    }

    fn finish_rows(&self, sums: &PanelSums, rows: RowList<'_>) {
        let (panel, finish, out) = (self.panel, self.finish, self.out);
        self.ctx.simd.run(FinishRows { sums, panel, finish, rows, out });
    }
}
