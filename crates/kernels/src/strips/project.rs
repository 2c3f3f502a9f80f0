//! `out = x * weights^T + bias` with weights in strips, or a gated unit of two such products.
//!
//! A task is a panel: two strips with all rows. Prompts meet them as bf16, unpacked into the
//! worker's cache; generated rows meet them as they are packed.

use half::bf16;
use std::sync::PoisonError;
use terrace_device::{SharedRows, View, ViewMut};

use super::bf16_products::Bf16Products;
use super::bf16_rows::{TILE_ROWS, tiles_numbers};
use super::finish::{Finish, FinishRows, PANEL_ROWS, PanelSums};
use super::inputs::{InputMemory, Inputs, PassRows, Wanted};
use super::panel::{Panel, PanelStrip, panel, panels};
use super::strip_matrix::{StripKind, StripMatrix};
use super::unpack_strip::UnpackStrip;
use super::word_products::WordProducts;
use crate::cpu_ops::CpuOps;
#[cfg(target_arch = "x86_64")]
use crate::lanes::Simd;
use crate::row_origins::{RowList, RowOrigins};

/// A weight matrix with an optional bias.
pub(crate) struct StripPart {
    pub(crate) weight: StripMatrix,
    /// One for each row of the weight.
    pub(crate) bias: Option<Vec<f32>>,
}

/// x: f32 `[tokens, columns]` · out: f32 `[tokens, rows of all parts]`, or of one part if gated
pub(crate) struct StripProduct<'a> {
    pub(crate) x: View<'a>,
    pub(crate) origins: RowOrigins<'a>,
    pub(crate) parts: &'a [StripPart],
    pub(crate) finish: Finish,
    pub(crate) out: ViewMut<'a>,
}

pub(crate) fn project(ops: &CpuOps, mut product: StripProduct<'_>) {
    product.check();
    let StripProduct { x, origins, parts, finish, ref mut out } = product;
    let [tokens, columns] = x.dims();
    let out = SharedRows::<f32>::new(out);
    let kinds = |wanted: fn(StripKind) -> bool| parts.iter().any(|part| wanted(part.weight.kind()));
    let wanted = Wanted {
        words: kinds(|kind| matches!(kind, StripKind::Quantised(_))),
        tiles: kinds(|kind| kind == StripKind::Bf16),
    };
    // Never poisoned in a way that matters: nobody reads what an earlier product left.
    let mut memory = ops.inputs.lock().unwrap_or_else(PoisonError::into_inner);
    let (prompt, generated) = (origins.prompt(), origins.generated(tokens));
    let pass_rows = InputMemory::pass_rows(columns);
    for start in (0..prompt.len().max(generated.len())).step_by(pass_rows) {
        let rows = PassRows {
            prompt: prompt.part(start, pass_rows),
            generated: generated.part(start, pass_rows),
        };
        let inputs = memory.convert(ops, x, rows, wanted);
        ops.pool.run(panels(parts, finish), &|worker, task| {
            let panel = panel(parts, finish, task);
            let task = PanelTask { ops, inputs: &inputs, panel, finish, out: &out };
            ops.with_scratch(worker, |scratch| task.run(scratch));
        });
    }
}

impl StripProduct<'_> {
    fn check(&self) {
        let [tokens, columns] = self.x.dims();
        assert!(columns <= CpuOps::MAX_COLUMNS, "{columns} columns of {}", CpuOps::MAX_COLUMNS);
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

/// Two strips and all rows of a pass.
struct PanelTask<'a> {
    ops: &'a CpuOps,
    inputs: &'a Inputs<'a, 'a>,
    panel: Panel<'a>,
    finish: Finish,
    out: &'a SharedRows<'a, f32>,
}

impl PanelTask<'_> {
    fn run(&self, scratch: &mut [f32]) {
        let mut sums = PanelSums::zeroed();
        if 0 < self.inputs.rows.prompt.len() {
            self.multiply_prompts(scratch, &mut sums);
        }
        let generated = self.inputs.rows.generated;
        for first in (0..generated.len()).step_by(PANEL_ROWS) {
            let rows = generated.part(first, PANEL_ROWS);
            for (side, strip) in self.panel.strips() {
                self.multiply_generated(strip, first, rows.len(), |row, products| {
                    sums.set(row, side, products);
                });
            }
            self.finish_rows(&sums, rows);
        }
    }

    fn multiply_prompts(&self, scratch: &mut [f32], sums: &mut PanelSums) {
        let numbers = tiles_numbers(self.panel.columns());
        // SAFETY: any bytes are bf16.
        let (_, memory, _) = unsafe { scratch.align_to_mut::<bf16>() };
        let (first, second) = memory.split_at_mut(numbers);
        let first = self.bf16_strip(self.panel.first, first);
        let second = match self.panel.second {
            Some(strip) => self.bf16_strip(strip, &mut second[..numbers]),
            None => first,
        };
        let strips = [first, second];
        match self.ops.simd {
            #[cfg(target_arch = "x86_64")]
            Simd::Amx(amx) => amx.with_tiles(|tiles| {
                self.each_32_prompt_rows(sums, |sums, groups, _| {
                    sums.multiply(tiles, groups, strips);
                });
            }),
            _ => self.each_32_prompt_rows(sums, |sums, groups, rows| {
                self.multiply_by_vectors(sums, groups, strips, rows);
            }),
        }
    }

    /// `multiply` gets the tiles of up to 32 rows, and how many rows there are from these on.
    fn each_32_prompt_rows(
        &self,
        sums: &mut PanelSums,
        multiply: impl Fn(&mut PanelSums, [&[bf16]; 2], usize),
    ) {
        let prompt = self.inputs.rows.prompt;
        for row in (0..prompt.len()).step_by(PANEL_ROWS) {
            let groups = [0, 1].map(|i| self.inputs.prompt_tiles(row / TILE_ROWS + i));
            multiply(sums, groups, prompt.len() - row);
            self.finish_rows(sums, prompt.part(row, PANEL_ROWS));
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
                self.ops.simd.run_strips(Bf16Products {
                    rows: (rows - before).min(TILE_ROWS),
                    tiles,
                    strip,
                    write: |row, products: &[f32; 16]| sums.set(before + row, side, products),
                });
            }
        }
    }

    fn multiply_generated(
        &self,
        strip: PanelStrip<'_>,
        first: usize,
        rows: usize,
        mut write: impl FnMut(usize, &[f32; 16]),
    ) {
        let simd = self.ops.simd;
        match strip.part.weight.kind() {
            StripKind::Quantised(format) => simd.run_strips(WordProducts {
                format,
                strip: strip.bytes(),
                rows,
                x: |row| self.inputs.words(first + row),
                write,
            }),
            StripKind::Bf16 => {
                for before in (0..rows).step_by(TILE_ROWS) {
                    simd.run_strips(Bf16Products {
                        rows: (rows - before).min(TILE_ROWS),
                        tiles: self.inputs.generated_tiles((first + before) / TILE_ROWS),
                        strip: strip.bf16(),
                        write: |row, products: &[f32; 16]| write(before + row, products),
                    });
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
                self.ops.simd.run_strips(unpack);
                memory
            }
        }
    }

    fn finish_rows(&self, sums: &PanelSums, rows: RowList<'_>) {
        let (panel, finish, out) = (self.panel, self.finish, self.out);
        self.ops.simd.run(FinishRows { sums, panel, finish, rows, out });
    }
}
