//! The arrays that say what a step of an HSTU stack computes, made on the host.

use terrace_kernels::{HSTU_TILE_ROWS, PageLayout, RowSpan, live_slot};

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
    tiles: Vec<[i32; 8]>,
}

/// Bytes of keys and values of one layer that a GPU's second-level cache holds beside the rest.
const CACHED_BYTES: usize = 32 << 20;

impl HstuStepArrays {
    /// No sequence yet; tables have at most `table_pages`, and at most so many candidates of a
    /// sequence are computed in a step.
    pub fn new(layout: &PageLayout, table_pages: usize, candidates: usize) -> Self {
        let token_bytes = layout.page_bytes() / (layout.layers * layout.page_tokens);
        HstuStepArrays {
            page_tokens: layout.page_tokens,
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
        }
    }

    /// No sequence any more.
    pub fn clear(&mut self) {
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
    }

    pub fn seqs(&self) -> usize {
        self.past_tokens.len()
    }

    pub fn tokens(&self) -> usize {
        self.commit_slots.len()
    }

    /// Tiles of rows, for a GPU.
    pub fn tile_count(&self) -> usize {
        self.tiles.len()
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
        for position in past..past + history_rows {
            let page = table[position / self.page_tokens] as usize;
            let slot = page * self.page_tokens + position % self.page_tokens;
            self.commit_slots.push(to_i32(slot));
            self.spans.extend(mask.span(parts, position).to_array());
        }
        let first = chunk.first_candidate;
        for row in 0..candidate_rows {
            self.commit_slots.push(live_slot(self.live_pages * self.page_tokens + row));
            let span = mask.span(parts, parts.history + first + row);
            let RowSpan { history, candidates } = span;
            assert!(first <= candidates.start, "a group of candidates is computed in one step");
            let candidates = candidates.start - first..candidates.end - first;
            self.spans.extend(RowSpan { history, candidates }.to_array());
        }
        self.add_live_table(candidate_rows);
        self.row_seqs.resize(self.tokens(), to_i32(seq));
        self.live_starts.push(to_i32(self.tokens()));
        for first in (first_row..self.tokens()).step_by(HSTU_TILE_ROWS) {
            self.add_tile(seq, first..self.tokens().min(first + HSTU_TILE_ROWS));
        }
    }

    /// `[tiles, 8]`, for a GPU. Sequences whose keys its cache holds together stay together; of
    /// those, tiles with the most work come first.
    pub fn tiles(&self) -> Vec<i32> {
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
        let mut tiles = self.tiles.clone();
        let keys = |tile: &[i32; 8]| tile[4] - tile[3] + tile[6] - tile[5];
        tiles.sort_by_key(|tile| (group_of[tile[0] as usize], -keys(tile)));
        tiles.concat()
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

    fn add_tile(&mut self, seq: usize, rows: std::ops::Range<usize>) {
        let spans = self.spans[4 * rows.start..4 * rows.end].chunks_exact(4);
        let union = |at: usize| {
            let seen = spans.clone().map(|span| [span[at], span[at + 1]]);
            let seen = seen.filter(|[start, end]| start < end);
            seen.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]).unwrap_or([0, 0])
        };
        let ([h0, h1], [c0, c1]) = (union(0), union(2));
        self.tiles.push([to_i32(seq), to_i32(rows.start), to_i32(rows.len()), h0, h1, c0, c1, 0]);
    }
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
        let tiles =
            [[1, 132, 12, 0, 200, 0, 5, 0], [1, 4, 128, 0, 193, 0, 0, 0], [0, 0, 4, 0, 7, 0, 3, 0]];
        assert_eq!(arrays.tiles(), tiles.concat());
    }
}
