//! The arrays that say what a step of an HSTU stack computes, made on the host.

use std::cmp::Reverse;

use terrace_kernels::{
    HSTU_TILE_ROWS, HstuRowTile, HstuTiles, HstuTiling, PageLayout, RowSpan, live_slot,
};

use super::mask::{MaskSpec, SequenceParts};

/// What a step computes of one sequence: some of its history that is new, and some candidates.
#[derive(Clone, Copy, Debug)]
pub struct StepChunk<'a> {
    /// Physical page of each logical one.
    pub table: &'a [i32],
    /// The whole sequence.
    pub parts: SequenceParts,
    /// Tokens of the history that are in slots.
    pub past: usize,
    /// How many of it are computed now.
    pub history_rows: usize,
    /// The first candidate that is computed now, and how many.
    pub first_candidate: usize,
    pub candidate_rows: usize,
}

/// What [`HstuKv`](terrace_kernels::HstuKv) points at.
#[derive(Clone, Debug)]
pub struct HstuStepArrays {
    page_tokens: usize,
    /// Whether what is known of each row is made on the device.
    rows_on_device: bool,
    tokens: usize,
    /// Tokens whose keys and values stay in a GPU's second-level cache.
    cached_tokens: usize,
    /// `[seqs, table_pages]`
    pub block_tables: Vec<i32>,
    pub table_pages: usize,
    pub past_tokens: Vec<i32>,
    /// `[seqs + 1]`
    pub live_starts: Vec<i32>,
    pub history_rows: Vec<i32>,
    pub commit_slots: Vec<i32>,
    /// `[tokens, 4]`
    pub spans: Vec<i32>,
    /// `[seqs, live_table_pages]`
    pub live_tables: Vec<i32>,
    pub live_table_pages: usize,
    live_pages: usize,
    pub row_seqs: Vec<i32>,
    tiles: Vec<HstuRowTile>,
    candidate_tiles: Vec<HstuRowTile>,
}

/// Bytes of keys and values of one layer that a GPU's second-level cache holds beside the rest.
const CACHED_BYTES: usize = 32 << 20;

impl HstuStepArrays {
    /// No sequence yet; tables have at most `table_pages`, and at most so many candidates of a
    /// sequence are computed in a step.
    pub fn new(layout: &PageLayout, table_pages: usize, candidates: usize) -> Self {
        Self::made(layout, table_pages, candidates, false)
    }

    /// As [`new`](Self::new), for steps without windows and groups whose rows a device makes
    /// (`Ops::step_rows`): no array here is as long as the step.
    pub fn rows_on_device(layout: &PageLayout, table_pages: usize, candidates: usize) -> Self {
        Self::made(layout, table_pages, candidates, true)
    }

    fn made(
        layout: &PageLayout,
        table_pages: usize,
        candidates: usize,
        rows_on_device: bool,
    ) -> Self {
        let token_bytes = layout.page_bytes() / (layout.layers * layout.page_tokens);
        HstuStepArrays {
            page_tokens: layout.page_tokens,
            rows_on_device,
            tokens: 0,
            cached_tokens: CACHED_BYTES / token_bytes.max(1),
            block_tables: Vec::new(),
            table_pages,
            past_tokens: Vec::new(),
            live_starts: vec![0],
            history_rows: Vec::new(),
            commit_slots: Vec::new(),
            spans: Vec::new(),
            live_tables: Vec::new(),
            live_table_pages: candidates.div_ceil(layout.page_tokens).max(1),
            live_pages: 0,
            row_seqs: Vec::new(),
            tiles: Vec::new(),
            candidate_tiles: Vec::new(),
        }
    }

    /// No sequence any more.
    pub fn clear(&mut self) {
        self.tokens = 0;
        self.block_tables.clear();
        self.past_tokens.clear();
        self.live_starts.truncate(1);
        self.history_rows.clear();
        self.commit_slots.clear();
        self.spans.clear();
        self.live_tables.clear();
        self.live_pages = 0;
        self.row_seqs.clear();
        self.tiles.clear();
        self.candidate_tiles.clear();
    }

    pub fn seqs(&self) -> usize {
        self.past_tokens.len()
    }

    pub fn tokens(&self) -> usize {
        self.tokens
    }

    pub fn push(&mut self, mask: &MaskSpec, chunk: &StepChunk<'_>) {
        let StepChunk { table, parts, past, history_rows, candidate_rows, .. } = *chunk;
        assert!(table.len() <= self.table_pages, "{} pages of {}", table.len(), self.table_pages);
        let (seq, first_row) = (self.seqs(), self.tokens());
        let tables = self.block_tables.len() + self.table_pages;
        self.block_tables.extend(table);
        self.block_tables.resize(tables, 0);
        self.past_tokens.push(to_i32(past));
        self.history_rows.push(to_i32(history_rows));
        self.tokens += history_rows + candidate_rows;
        let is_plain = mask.is_plain(parts);
        assert!(is_plain || !self.rows_on_device, "a device makes rows without windows and groups");
        if !self.rows_on_device {
            self.add_slots(table, past..past + history_rows);
            let live = self.live_pages * self.page_tokens;
            self.commit_slots.extend((live..live + candidate_rows).map(live_slot));
            match is_plain {
                true => self.add_plain_spans(chunk),
                false => self.add_spans(mask, chunk),
            }
            self.row_seqs.resize(self.tokens, to_i32(seq));
        }
        self.add_live_table(candidate_rows);
        self.live_starts.push(to_i32(self.tokens));
        let end = self.tokens;
        let tile = |first: usize| {
            let rows = first..end.min(first + HSTU_TILE_ROWS);
            match is_plain {
                true => plain_tile(seq, chunk, first_row, rows),
                false => self.tile(seq, rows),
            }
        };
        let tiles: Vec<_> = (first_row..end).step_by(HSTU_TILE_ROWS).map(tile).collect();
        let candidates = (first_row + history_rows..end).step_by(HSTU_TILE_ROWS);
        let candidate_tiles: Vec<_> = candidates.map(tile).collect();
        self.tiles.extend(tiles);
        self.candidate_tiles.extend(candidate_tiles);
    }

    /// Where keys and values of some positions go.
    fn add_slots(&mut self, table: &[i32], positions: std::ops::Range<usize>) {
        let (page_tokens, mut position) = (self.page_tokens, positions.start);
        while position < positions.end {
            let page = position / page_tokens;
            let end = positions.end.min((page + 1) * page_tokens);
            let first = table[page] as usize * page_tokens + position % page_tokens;
            let last = to_i32(first + end - position);
            self.commit_slots.extend(to_i32(first)..last);
            position = end;
        }
    }

    fn add_spans(&mut self, mask: &MaskSpec, chunk: &StepChunk<'_>) {
        let StepChunk { parts, past, history_rows, candidate_rows, .. } = *chunk;
        for position in past..past + history_rows {
            self.spans.extend(mask.span(parts, position).to_array());
        }
        let first = chunk.first_candidate;
        for row in 0..candidate_rows {
            let span = mask.span(parts, parts.history + first + row);
            let RowSpan { history, candidates } = span;
            assert!(first <= candidates.start, "a group of candidates is computed in one step");
            let candidates = candidates.start - first..candidates.end - first;
            self.spans.extend(RowSpan { history, candidates }.to_array());
        }
    }

    /// As [`add_spans`](Self::add_spans) for the mask of most models.
    fn add_plain_spans(&mut self, chunk: &StepChunk<'_>) {
        let StepChunk { parts, past, history_rows, candidate_rows, .. } = *chunk;
        let start = self.spans.len();
        self.spans.resize(start + 4 * (history_rows + candidate_rows), 0);
        let (history, candidates) = self.spans[start..].split_at_mut(4 * history_rows);
        let rows = history.as_chunks_mut().0.iter_mut();
        rows.zip(to_i32(past)..).for_each(|(span, row)| *span = [0, row + 1, 0, 0]);
        let seen = to_i32(parts.history);
        let rows = candidates.as_chunks_mut().0.iter_mut();
        rows.zip(0..).for_each(|(span, row)| *span = [0, seen, row, row + 1]);
    }

    /// For a GPU. Sequences whose keys its cache holds together stay together; of those, tiles with
    /// the most work come first.
    pub fn tiles(&self, tiling: HstuTiling) -> HstuTiles {
        HstuTiles::new(&self.ordered(&self.tiles), tiling)
    }

    /// As [`tiles`](Self::tiles), of the candidates alone.
    pub fn candidate_tiles(&self, tiling: HstuTiling) -> HstuTiles {
        HstuTiles::new(&self.ordered(&self.candidate_tiles), tiling)
    }

    fn ordered(&self, tiles: &[HstuRowTile]) -> Vec<HstuRowTile> {
        let mut group_of = Vec::with_capacity(self.seqs());
        let (mut group, mut held) = (0, 0);
        for seq in 0..self.seqs() {
            let tokens = (self.past_tokens[seq] + self.history_rows[seq]) as usize;
            if 0 < held && self.cached_tokens < held + tokens {
                (group, held) = (group + 1, 0);
            }
            held += tokens;
            group_of.push(group);
        }
        let mut tiles = tiles.to_vec();
        let keys = |tile: &HstuRowTile| tile.history.len() + tile.candidates.len();
        tiles.sort_by_key(|tile| (group_of[tile.seq], Reverse(keys(tile))));
        tiles
    }

    /// Scratch pages for a sequence's candidates, one after the other.
    fn add_live_table(&mut self, candidates: usize) {
        let pages = candidates.div_ceil(self.page_tokens);
        let most = self.live_table_pages;
        assert!(pages <= most, "{candidates} candidates in {most} pages");
        let pages = self.live_pages..self.live_pages + pages;
        self.live_pages = pages.end;
        let filled = self.live_tables.len() + self.live_table_pages;
        self.live_tables.extend(pages.map(to_i32));
        self.live_tables.resize(filled, 0);
    }

    fn tile(&self, seq: usize, rows: std::ops::Range<usize>) -> HstuRowTile {
        let spans: &[[i32; 4]] = self.spans[4 * rows.start..4 * rows.end].as_chunks().0;
        let union = |at: usize| {
            let (mut first, mut last) = (i32::MAX, 0);
            for span in spans {
                let sees = span[at] < span[at + 1];
                first = first.min(if sees { span[at] } else { i32::MAX });
                last = last.max(if sees { span[at + 1] } else { 0 });
            }
            first.min(last) as usize..last as usize
        };
        HstuRowTile { seq, rows, history: union(0), candidates: union(2) }
    }
}

/// What any of some rows sees, with the mask of most models; the sequence begins at `first_row`.
fn plain_tile(
    seq: usize,
    chunk: &StepChunk<'_>,
    first_row: usize,
    rows: std::ops::Range<usize>,
) -> HstuRowTile {
    let (start, end) = (rows.start - first_row, rows.end - first_row);
    let behind = |row: usize| row.saturating_sub(chunk.history_rows);
    let seen = match chunk.history_rows < end {
        true => chunk.parts.history,
        false => chunk.past + end,
    };
    HstuRowTile { seq, rows, history: 0..seen, candidates: behind(start)..behind(end) }
}

fn to_i32(number: usize) -> i32 {
    i32::try_from(number).expect("slots and rows are 31 bits wide")
}

#[cfg(test)]
mod tests {
    use terrace_device::DType;

    use super::*;

    #[test]
    fn rows_are_cut_into_tiles_with_what_they_see() {
        let layout = PageLayout {
            layers: 1,
            kv_heads: 1,
            page_tokens: 4,
            key_dim: 2,
            value_dim: 2,
            dtype: DType::F32,
        };
        let mut arrays = HstuStepArrays::new(&layout, 50, 5);
        let parts = |history, candidates| SequenceParts { context: None, history, candidates };
        let table: Vec<i32> = (0..50).rev().collect();
        let chunk = StepChunk {
            table: &table,
            parts: parts(7, 3),
            past: 6,
            history_rows: 1,
            first_candidate: 0,
            candidate_rows: 3,
        };
        arrays.push(&MaskSpec::CAUSAL, &chunk);
        let chunk = StepChunk {
            parts: parts(200, 9),
            past: 65,
            history_rows: 135,
            first_candidate: 4,
            candidate_rows: 5,
            ..chunk
        };
        arrays.push(&MaskSpec::CAUSAL, &chunk);
        assert_eq!(arrays.live_starts, [0, 4, 144]);
        assert_eq!(arrays.commit_slots[..5], [48 * 4 + 2, -1, -2, -3, 33 * 4 + 1]);
        assert_eq!(arrays.commit_slots[139..], [-5, -6, -7, -8, -9]);
        assert_eq!(arrays.live_tables, [0, 0, 1, 2]);
        assert_eq!(arrays.spans[..8], [0, 7, 0, 0, 0, 7, 0, 1]);
        assert_eq!(arrays.spans[4 * 139..4 * 140], [0, 200, 0, 1]);
        let tiles = arrays.tiles(HstuTiling::NONE);
        let items = [
            [1, 132, 12, 0, 200, 0, 5, 0, 5, -1, 0, 0],
            [1, 4, 128, 0, 193, 0, 0, 0, 4, -1, 0, 0],
            [0, 0, 4, 0, 7, 0, 3, 0, 2, -1, 0, 0],
        ];
        assert_eq!((tiles.items, tiles.sums), (items.concat(), vec![]));
        let mut without_rows = HstuStepArrays::rows_on_device(&layout, 50, 5);
        let plain = arrays.clone();
        for (table, parts, past, history_rows, first_candidate, candidate_rows) in
            [(&table, parts(7, 3), 6, 1, 0, 3), (&table, parts(200, 9), 65, 135, 4, 5)]
        {
            let chunk =
                StepChunk { table, parts, past, history_rows, first_candidate, candidate_rows };
            without_rows.push(&MaskSpec::CAUSAL, &chunk);
        }
        assert_eq!(without_rows.tiles(HstuTiling::NONE), plain.tiles(HstuTiling::NONE));
        assert_eq!(without_rows.live_starts, plain.live_starts);
        assert_eq!((without_rows.tokens(), without_rows.spans.len()), (144, 0));
        let tiles = arrays.candidate_tiles(HstuTiling::NONE);
        let items =
            [[1, 139, 5, 0, 200, 0, 5, 0, 5, -1, 0, 0], [0, 1, 3, 0, 7, 0, 3, 0, 2, -1, 0, 0]];
        assert_eq!(tiles.items, items.concat());
    }
}
