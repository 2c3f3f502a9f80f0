//! The rows of a step in one layer, cut into tiles.

use terrace_device::{SharedRows, View};

use super::attend_args::{AttendedRows, HstuKv, RowScale};
#[cfg(target_arch = "x86_64")]
use super::prompt_tile::{CandidateTerms, PromptTile};
use super::relative_bias::RelativeBias;
use super::tile::Tile;
use crate::attention::blocks::{OutRows, QueryRows};
use crate::attention::kv_rows::{KvRows, SeqRows};
use crate::cpu::cpu_ctx::CpuCtx;
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::{Simd, TileRow};

/// Rows of a tile over vectors: enough that fetching a block of keys is a few percent of the work.
const TILE_ROWS: usize = 64;

/// All rows of a step in one layer. A task is a tile of them with one head.
pub(super) struct Layer<'a> {
    ctx: &'a CpuCtx,
    kv: &'a HstuKv<'a>,
    live: [View<'a>; 2],
    q: View<'a>,
    layer: usize,
    out: &'a SharedRows<'a, f32>,
}

/// What becomes of scores and sums.
#[derive(Clone, Copy)]
struct Rules<'a> {
    rows: AttendedRows,
    scale: f32,
    bias: Option<RelativeBias<'a>>,
    row_scale: RowScale<'a>,
    tile_rows: usize,
    on_matrix_units: bool,
}

/// Which tile of a sequence, and which head.
#[derive(Clone, Copy)]
struct TilePlace {
    seq: usize,
    tile: usize,
    head: usize,
}

impl<'a> Layer<'a> {
    pub(super) fn new(
        ctx: &'a CpuCtx,
        kv: &'a HstuKv<'a>,
        live: [View<'a>; 2],
        q: View<'a>,
        layer: usize,
        out: &'a SharedRows<'a, f32>,
    ) -> Self {
        Layer { ctx, kv, live, q, layer, out }
    }

    pub(super) fn run(
        &self,
        rows: AttendedRows,
        scale: f32,
        bias: Option<RelativeBias<'_>>,
        row_scale: RowScale<'_>,
    ) {
        let on_matrix_units = self.ctx.has_prompt_tiles() && bias.is_none();
        let tile_rows = if on_matrix_units { self.prompt_rows() } else { TILE_ROWS };
        let rules = Rules { rows, scale, bias, row_scale, tile_rows, on_matrix_units };
        let [seqs] = self.kv.past_tokens.dims();
        let tiles_of = |seq: usize| self.rows_of(rows, seq).len().div_ceil(tile_rows);
        let tiles: usize = (0..seqs).map(tiles_of).sum();
        let heads = self.kv.layout.kv_heads;
        self.ctx.run_with_scratch(tiles * heads, &|scratch, task| {
            // Later tiles see more keys and come first, so that no long one is left for the end.
            let task = tiles * heads - 1 - task;
            let (mut tile, head) = (task / heads, task % heads);
            let mut seq = 0;
            while tiles_of(seq) <= tile {
                tile -= tiles_of(seq);
                seq += 1;
            }
            let place = TilePlace { seq, tile, head };
            match self.ctx.simd {
                #[cfg(target_arch = "x86_64")]
                Simd::Amx(amx) if rules.on_matrix_units => {
                    amx.with_tiles(TileRow::Bytes64, |tiles| {
                        let tile = self.tile(&rules, place, scratch);
                        self.ctx.simd.run_panels(PromptTile { tile, tiles });
                    });
                    let tile = self.tile(&rules, place, scratch);
                    self.ctx.simd.run(CandidateTerms { tile });
                }
                _ => self.ctx.simd.run(self.tile(&rules, place, scratch)),
            }
        });
    }

    /// The rows of a sequence that are asked for.
    fn rows_of(&self, rows: AttendedRows, seq: usize) -> std::ops::Range<usize> {
        let starts = self.kv.live_starts.as_slice::<i32>();
        let [start, end] = [seq, seq + 1].map(|seq| starts[seq] as usize);
        match rows {
            AttendedRows::All => start..end,
            AttendedRows::Candidates => {
                start + self.kv.history_rows.as_slice::<i32>()[seq] as usize..end
            }
        }
    }

    fn tile<'s>(
        &'s self,
        rules: &Rules<'s>,
        TilePlace { seq, tile, head }: TilePlace,
        scratch: &'s mut [f32],
    ) -> Tile<'s> {
        let kv = self.kv;
        let rows = self.rows_of(rules.rows, seq);
        let first = rows.start + tile * rules.tile_rows;
        let past = kv.past_tokens.as_slice::<i32>()[seq] as usize;
        let source = SeqRows {
            layout: kv.layout,
            pages: kv.pages.as_view(),
            table: kv.block_tables.row(seq),
            past,
            live_start: kv.live_starts.as_slice::<i32>()[seq] as usize,
        };
        Tile {
            q: QueryRows::new(self.q, first, head..head + 1),
            out: OutRows::new(self.out, first, head..head + 1, kv.layout.value_dim),
            kv: KvRows::new(source, self.live, self.layer, head),
            seq,
            tokens: first..rows.end.min(first + rules.tile_rows),
            first_candidate: past + kv.history_rows.as_slice::<i32>()[seq] as usize,
            spans: kv.spans,
            scale: rules.scale,
            bias: rules.bias,
            row_scale: rules.row_scale,
            scratch,
        }
    }

    /// Rows of a tile on the matrix units.
    #[cfg(target_arch = "x86_64")]
    fn prompt_rows(&self) -> usize {
        use crate::attention::blocks::{PROMPT_TILE_QUERIES, prompt_floats};
        use crate::cpu::cpu_ctx::SCRATCH_FLOATS;
        let layout = self.kv.layout;
        let fits =
            |rows: usize| prompt_floats(rows, layout.key_dim, layout.value_dim) <= SCRATCH_FLOATS;
        let largest = (1..=PROMPT_TILE_QUERIES / 16).rev().map(|runs| 16 * runs).find(|r| fits(*r));
        largest.expect("sixteen rows of the widest head fit")
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn prompt_rows(&self) -> usize {
        unreachable!("there are no matrix units")
    }
}
