//! Sequences driven through pages by hand: whole, or what is new after some of it.

use terrace_device::{Buffer, DType, Device, Workspace};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{HstuKv, HstuStepSize, HstuTileViews, HstuTiles, Ops, PageLayout};

use crate::error::Error;
use crate::golden::placed::Placed;
use crate::hstu::{HstuStepArrays, MaskSpec, SequenceParts, StepChunk};

/// Pages of some sequences, in a scattered order.
pub(super) struct StackRun<'a> {
    pub ops: &'a Ops,
    pub device: Device,
    pub layout: PageLayout,
    pages: Buffer,
    page_count: usize,
    tables: Vec<Vec<i32>>,
    /// Tokens of each sequence that are in slots.
    pub past: Vec<usize>,
}

/// What a step computes of one sequence.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub parts: SequenceParts,
    pub history_rows: usize,
    pub candidate_rows: usize,
}

impl Rows {
    /// All of a sequence, of which nothing was computed before.
    pub fn whole(parts: SequenceParts) -> Self {
        let SequenceParts { history, candidates, .. } = parts;
        Rows { parts, history_rows: history, candidate_rows: candidates }
    }
}

impl<'a> StackRun<'a> {
    pub fn new(
        ops: &'a Ops,
        layout: PageLayout,
        seqs: usize,
        seq_tokens: usize,
    ) -> Result<Self, Error> {
        let table_pages = seq_tokens.div_ceil(layout.page_tokens).max(1);
        let page_count = seqs * table_pages;
        let shuffled = SplitMix::new(1).shuffled(page_count);
        let tables = shuffled.chunks(table_pages);
        let tables = tables.map(|pages| pages.iter().map(|page| *page as i32).collect());
        Self::over(ops, layout, page_count, tables.collect())
    }

    /// With tables that are given.
    pub fn over(
        ops: &'a Ops,
        layout: PageLayout,
        page_count: usize,
        tables: Vec<Vec<i32>>,
    ) -> Result<Self, Error> {
        let device = ops.device();
        let pages = device.take(page_count * layout.page_bytes(), "pages")?;
        let past = vec![0; tables.len()];
        Ok(StackRun { ops, device, layout, pages, page_count, tables, past })
    }

    /// Other tables, which begin as the ones before.
    pub fn set_tables(&mut self, tables: Vec<Vec<i32>>) {
        self.tables = tables;
    }

    /// Calls `run` with the keys and values of a step, and what it may work in.
    pub fn step<T>(
        &mut self,
        mask: &MaskSpec,
        rows: &[Rows],
        workspace_bytes: impl FnOnce(HstuStepSize) -> usize,
        run: impl FnOnce(&Workspace, &mut HstuKv<'_>) -> T,
    ) -> Result<T, Error> {
        let table_pages = self.tables.iter().map(Vec::len).max().unwrap_or(1);
        let candidates = rows.iter().map(|rows| rows.candidate_rows).max().unwrap_or(0);
        let mut arrays = HstuStepArrays::new(&self.layout, table_pages, candidates);
        for (seq, rows) in rows.iter().enumerate() {
            let chunk = StepChunk {
                table: &self.tables[seq],
                parts: rows.parts,
                past: self.past[seq],
                history_rows: rows.history_rows,
                first_candidate: 0,
                candidate_rows: rows.candidate_rows,
            };
            arrays.push(mask, &chunk);
            self.past[seq] += rows.history_rows;
        }
        let device = &self.device;
        let vector = |values: &[i32]| Placed::i32s(device, values, [values.len()]);
        let (seqs, tokens) = (arrays.seqs(), arrays.tokens());
        let size = HstuStepSize { tokens, seqs, table_pages };
        let tables = Placed::i32s(device, &arrays.block_tables, [seqs, table_pages])?;
        let past_tokens = vector(&arrays.past_tokens)?;
        let live_starts = vector(&arrays.live_starts)?;
        let history_rows = vector(&arrays.history_rows)?;
        let commit_slots = vector(&arrays.commit_slots)?;
        let spans = Placed::i32s(device, &arrays.spans, [tokens, 4])?;
        let live = [seqs, arrays.live_table_pages];
        let live_tables = Placed::i32s(device, &arrays.live_tables, live)?;
        let row_seqs = vector(&arrays.row_seqs)?;
        let tiling = self.ops.hstu_tiling(&self.layout);
        let place = |tiles: HstuTiles| -> Result<[Placed; 2], Error> {
            let HstuTiles { items, sums } = tiles;
            let [item, sum] = [HstuTiles::ITEM_WORDS, HstuTiles::SUM_WORDS];
            let items = Placed::i32s(device, &items, [items.len() / item, item])?;
            Ok([items, Placed::i32s(device, &sums, [sums.len() / sum, sum])?])
        };
        let tiles = place(arrays.tiles(tiling))?;
        let candidate_tiles = place(arrays.candidate_tiles(tiling))?;
        let workspace = Workspace::new(device, workspace_bytes(size).max(1))?;
        let page_bytes = self.layout.page_bytes();
        let mut kv = HstuKv {
            layout: self.layout,
            pages: self.pages.view_mut(DType::U8, [self.page_count, page_bytes]),
            block_tables: tables.view(),
            past_tokens: past_tokens.view(),
            live_starts: live_starts.view(),
            history_rows: history_rows.view(),
            commit_slots: commit_slots.view(),
            spans: spans.view(),
            live_tables: live_tables.view(),
            row_seqs: row_seqs.view(),
            tiles: HstuTileViews { items: tiles[0].view(), sums: tiles[1].view() },
            candidate_tiles: HstuTileViews {
                items: candidate_tiles[0].view(),
                sums: candidate_tiles[1].view(),
            },
        };
        Ok(run(&workspace, &mut kv))
    }

    /// The keys (side 0) or values (side 1) that were stored at some positions of sequences, f32,
    /// one row after the other.
    pub fn stored_rows(
        &self,
        rows: impl Iterator<Item = (usize, usize)>,
        layer: usize,
        side: usize,
    ) -> Result<Vec<f32>, Error> {
        let PageLayout { kv_heads, page_tokens, key_dim, value_dim, .. } = self.layout;
        let (dim, offset) = match side {
            0 => (key_dim, self.layout.key_offset(layer)),
            _ => (value_dim, self.layout.value_offset(layer)),
        };
        let bytes = self.page_bytes()?;
        let mut numbers = Vec::new();
        for (seq, position) in rows {
            let page = self.tables[seq][position / page_tokens] as usize;
            let page = &bytes[page * self.layout.page_bytes() + offset..];
            for head in 0..kv_heads {
                let row = (head * page_tokens + position % page_tokens) * dim;
                let row = page[4 * row..4 * (row + dim)].as_chunks().0;
                numbers.extend(row.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }
        }
        Ok(numbers)
    }

    /// The bytes of all pages.
    fn page_bytes(&self) -> Result<Vec<u8>, Error> {
        let count = self.page_count * self.layout.page_bytes();
        match &self.device {
            Device::Cpu => Ok(self.pages.bytes()[..count].to_vec()),
            Device::Cuda(device) => {
                let mut bytes = vec![0; count];
                device.read(self.pages.view(DType::U8, [count]), &mut bytes)?;
                Ok(bytes)
            }
        }
    }
}
