//! The rows of one product, converted once for all workers.

use half::bf16;
use terrace_device::{DType, SharedRows, View};

use super::int8_rows::{INT8_ROWS, Int8Tile, ToInt8};
use super::int16_rows::{Int16Block, ToInt16};
use crate::cpu::converted_rows::ConvertedRows;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::row_kinds::RowList;
use crate::tiles::{BLOCK_COLUMNS, TILE_ROWS, ToTiles, tiles_numbers};

/// Rows of one pass. Those of prompts are in tiles; generated ones are as the product wants them.
#[derive(Clone, Copy)]
pub(crate) struct PassRows<'a> {
    pub(crate) prompt: RowList<'a>,
    pub(crate) generated: RowList<'a>,
}

/// The converted rows of a pass.
pub(crate) struct Inputs<'m, 'a> {
    pub(crate) rows: PassRows<'a>,
    columns: usize,
    tiles: &'m [bf16],
    words: &'m [Int16Block],
    bytes: &'m [Int8Tile],
}

/// What generated rows are converted to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// For quantised weights: integers, one row after the other.
    pub(crate) words: bool,
    /// For quantised weights: integers in tiles of bytes.
    pub(crate) bytes: bool,
    /// For other weights.
    pub(crate) tiles: bool,
}

/// Rows of each kind that one pass takes.
pub(crate) fn pass_rows(columns: usize) -> usize {
    let tiles = ConvertedRows::BYTES / (2 * tiles_numbers(columns));
    let words = ConvertedRows::BYTES / (columns.div_ceil(BLOCK_COLUMNS) * size_of::<Int16Block>());
    (tiles / 2 * TILE_ROWS).min(words)
}

/// Rows that one pass takes where all are prompts'.
pub(crate) fn prompt_pass_rows(columns: usize) -> usize {
    ConvertedRows::BYTES / (2 * tiles_numbers(columns)) * TILE_ROWS
}

pub(crate) fn convert<'m, 'a>(
    memory: &'m mut ConvertedRows,
    ctx: &CpuCtx,
    x: View<'_>,
    rows: PassRows<'a>,
    wanted: Wanted,
) -> Inputs<'m, 'a> {
    let [_, columns] = x.dims();
    let group_bytes = 2 * tiles_numbers(columns);
    let row_bytes = columns.div_ceil(BLOCK_COLUMNS) * size_of::<Int16Block>();
    let prompt_groups = rows.prompt.len().div_ceil(TILE_ROWS);
    let tile_rows = if wanted.tiles { rows.generated.len() } else { 0 };
    let groups = prompt_groups + tile_rows.div_ceil(TILE_ROWS);
    let int16_rows = if wanted.words { rows.generated.len() } else { 0 };
    let int8_rows = if wanted.bytes { rows.generated.len() } else { 0 };
    let int8_parts = Int8Parts::new(ctx, int8_rows, columns);
    let [int8_groups, int8_group_bytes] = int8_parts.dims();
    let mut tiles = memory.tiles.view_mut(DType::U8, [groups, group_bytes]);
    let mut words = memory.words.view_mut(DType::U8, [int16_rows, row_bytes]);
    let mut bytes = memory.bytes.view_mut(DType::U8, [int8_groups, int8_group_bytes]);
    let [tiles, words, bytes] = [&mut tiles, &mut words, &mut bytes].map(SharedRows::<u8>::new);
    let generated = |row| x.row::<f32>(rows.generated.get(row));
    let to_int16 = |row| {
        // SAFETY: each row is one task's, and any bytes are a block of words.
        let (_, out, _) = unsafe { words.row_mut(row).align_to_mut::<Int16Block>() };
        ctx.simd.run_panels(ToInt16 { x: generated(row), out });
    };
    let to_tiles = |task: usize| {
        let list = match task.checked_sub(prompt_groups) {
            None => rows.prompt.part(task * TILE_ROWS, TILE_ROWS),
            Some(group) => rows.generated.part(group * TILE_ROWS, TILE_ROWS),
        };
        // SAFETY: each group is one task's, and any two bytes are a bf16.
        let (_, out, _) = unsafe { tiles.row_mut(task).align_to_mut::<bf16>() };
        let x = |row| x.row::<f32>(list.get(row));
        ctx.simd.run_panels(ToTiles { rows: list.len(), x, out });
    };
    let int8_tasks = int8_parts.tasks();
    ctx.pool.run(groups + int8_tasks + int16_rows, &|_, task| {
        if task < groups {
            to_tiles(task);
        } else if task < groups + int8_tasks {
            // SAFETY: each part is one task's.
            unsafe { int8_parts.convert(ctx, task - groups, generated, &bytes) };
        } else {
            to_int16(task - groups - int8_tasks);
        }
    });
    Inputs {
        rows,
        columns,
        tiles: memory.tiles.view(DType::Bf16, [groups * group_bytes / 2]).as_slice(),
        // SAFETY: any bytes are blocks of words, and the buffer is aligned for them.
        words: unsafe { memory.words.bytes()[..int16_rows * row_bytes].align_to().1 },
        // SAFETY: any bytes are such tiles.
        bytes: unsafe { memory.bytes.bytes()[..int8_groups * int8_group_bytes].align_to().1 },
    }
}

/// Generated rows on their way to bytes: eight rows at a time, and where that leaves threads
/// without work a part of their columns, mostly what the thread has written itself.
struct Int8Parts {
    rows: usize,
    columns: usize,
    /// Of each eight rows.
    parts: usize,
}

impl Int8Parts {
    fn new(ctx: &CpuCtx, rows: usize, columns: usize) -> Self {
        let parts = match rows.div_ceil(INT8_ROWS) {
            groups if INT8_ROWS / 2 <= rows => (ctx.threads() / groups).max(1),
            // So few are sooner converted than handed over.
            _ => 1,
        };
        Int8Parts { rows, columns, parts }
    }

    /// Of the memory: eight rows, and their bytes.
    fn dims(&self) -> [usize; 2] {
        let tiles = self.columns.div_ceil(BLOCK_COLUMNS);
        [self.rows.div_ceil(INT8_ROWS), tiles * size_of::<Int8Tile>()]
    }

    fn tasks(&self) -> usize {
        self.rows.div_ceil(INT8_ROWS) * self.parts
    }

    /// x: a row · bytes: as [`dims`](Self::dims) says
    ///
    /// # Safety
    /// Nobody else has the task.
    unsafe fn convert<'x>(
        &self,
        ctx: &CpuCtx,
        task: usize,
        x: impl Fn(usize) -> &'x [f32],
        bytes: &SharedRows<'_, u8>,
    ) {
        let (group, part) = (task / self.parts, task % self.parts);
        let part_tiles = self.columns.div_ceil(BLOCK_COLUMNS).div_ceil(self.parts);
        let part_of = |all: usize, tile: usize| {
            (part * part_tiles * tile).min(all)..((part + 1) * part_tiles * tile).min(all)
        };
        let tiles = part_of(self.dims()[1], size_of::<Int8Tile>());
        // SAFETY: the caller's contract, and any bytes are such tiles.
        let (_, tiles, _) = unsafe { bytes.part_mut(group, tiles).align_to_mut::<Int8Tile>() };
        for row in group * INT8_ROWS..self.rows.min((group + 1) * INT8_ROWS) {
            let x = &x(row)[part_of(self.columns, BLOCK_COLUMNS)];
            ctx.simd.run_panels(ToInt8 { x, row: row % INT8_ROWS, tiles: &mut *tiles });
        }
    }
}

impl Inputs<'_, '_> {
    /// The tiles of sixteen rows of prompts; empty behind the last.
    pub(crate) fn prompt_tiles(&self, group: usize) -> &[bf16] {
        match group * TILE_ROWS < self.rows.prompt.len() {
            true => self.tiles_of(group),
            false => &[],
        }
    }

    /// The tiles of sixteen generated rows.
    pub(crate) fn generated_tiles(&self, group: usize) -> &[bf16] {
        self.tiles_of(self.rows.prompt.len().div_ceil(TILE_ROWS) + group)
    }

    /// A generated row.
    pub(crate) fn words(&self, row: usize) -> &[Int16Block] {
        let blocks = self.columns.div_ceil(BLOCK_COLUMNS);
        &self.words[row * blocks..(row + 1) * blocks]
    }

    /// The tiles of eight generated rows, if bytes were wanted.
    pub(crate) fn int8_tiles(&self, group: usize) -> &[Int8Tile] {
        let blocks = self.columns.div_ceil(BLOCK_COLUMNS);
        &self.bytes[group * blocks..(group + 1) * blocks]
    }

    fn tiles_of(&self, group: usize) -> &[bf16] {
        let numbers = tiles_numbers(self.columns);
        &self.tiles[group * numbers..(group + 1) * numbers]
    }
}
