//! A case's steps over pages, where the ops compute.

use terrace_device::{DType, Device};

use super::hstu_case::HstuCase;
use crate::conformance::page_bytes::write_token;
use crate::conformance::placed::Placed;
use crate::hstu::attention::{
    AttendedRows, HSTU_TILE_ROWS, HstuAttendArgs, HstuKv, HstuRowTile, HstuStepSize, HstuTileViews,
    HstuTiles, HstuTiling, PlacedTimeBuckets, RelativeBias, RowScale, RowSpan, live_slot,
};
use crate::linear::vector::Vector;
use crate::ops::Ops;
use crate::pages::page_layout::PageLayout;
use crate::random::SplitMix;

/// What a step computes of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Tokens of the history in slots, and how many follow.
    pub past: usize,
    pub new: usize,
    /// Candidates that are computed.
    pub first_candidate: usize,
    pub candidates: usize,
}

/// Pages, and which of them each sequence has.
pub(super) struct HstuRun<'a> {
    ops: &'a Ops,
    case: &'a HstuCase,
    device: Device,
    pages: Placed,
    page_count: usize,
    page_bytes: usize,
    table_pages: usize,
    tables: Vec<Vec<i32>>,
    bias: [Vector; 2],
    buckets: PlacedTimeBuckets,
}

/// What a step's arrays hold.
struct Arrays {
    past: Vec<i32>,
    starts: Vec<i32>,
    history_rows: Vec<i32>,
    slots: Vec<i32>,
    spans: Vec<RowSpan>,
    row_seqs: Vec<i32>,
    live_tables: Vec<i32>,
    live_table_pages: usize,
    tiles: Vec<HstuRowTile>,
    candidate_tiles: Vec<HstuRowTile>,
    /// The sequence and row of each token.
    rows: Vec<(usize, usize)>,
}

impl<'a> HstuRun<'a> {
    /// Physical pages are handed out in random order. Slots of `past` hold what was computed
    /// before, unless no later row sees it; all others are poisoned.
    pub(super) fn new(
        ops: &'a Ops,
        case: &'a HstuCase,
        past: &[usize],
        random: &mut SplitMix,
    ) -> Self {
        let (layout, device) = (case.spec.layout, ops.device());
        let pages_of = |[history, _]: &[usize; 2]| history.div_ceil(layout.page_tokens);
        let table_pages = case.spec.seqs.iter().map(pages_of).max().unwrap_or(0) + 1;
        let page_count = case.spec.seqs.iter().map(pages_of).sum::<usize>() + 3;
        // A page may be longer than its layout.
        let page_bytes = layout.page_bytes() + case.spec.page_gap;
        let mut free = random.shuffled(page_count);
        let tables = case.spec.seqs.iter().map(|seq| {
            let mut table: Vec<i32> = (0..pages_of(seq))
                .map(|_| free.pop().expect("pages were counted") as i32)
                .collect();
            table.resize(table_pages, -1);
            table
        });
        let tables: Vec<Vec<i32>> = tables.collect();
        let mut bytes = vec![0xff; page_count * page_bytes];
        for (seq, past) in past.iter().enumerate() {
            let seen = case.seqs[seq].least_seen(*past);
            for position in seen.min(*past)..*past {
                let slot = slot_of(&layout, &tables[seq], position);
                write_case_token(case, &mut bytes, page_bytes, seq, position, slot);
            }
        }
        let place = |values: &Vec<f32>| ops.place_vector(values).expect("a small vector");
        let buckets = ops.place_time_buckets(case.buckets.clone()).expect("a small vector");
        HstuRun {
            ops,
            case,
            pages: Placed::of(&device, &bytes, [page_count, page_bytes]),
            device,
            page_count,
            page_bytes,
            table_pages,
            tables,
            bias: case.bias.each_ref().map(place),
            buckets,
        }
    }

    /// The bytes of all pages.
    pub(super) fn pages(&self) -> Vec<u8> {
        self.pages.bytes()
    }

    /// What pages should hold once rows are in their slots.
    pub(super) fn pages_wanted(&self, before: &[u8], chunks: &[Chunk]) -> Vec<u8> {
        let mut bytes = before.to_vec();
        for (seq, chunk) in chunks.iter().enumerate() {
            for position in chunk.past..chunk.past + chunk.new {
                let slot = slot_of(&self.case.spec.layout, &self.tables[seq], position);
                write_case_token(self.case, &mut bytes, self.page_bytes, seq, position, slot);
            }
        }
        bytes
    }

    /// Runs a step: the sequence and row of each token, and what attention gave for it. Panics
    /// where columns beside the results were written.
    pub(super) fn step(&mut self, chunks: &[Chunk]) -> Vec<((usize, usize), Vec<f32>)> {
        self.step_of(chunks, AttendedRows::All)
    }

    /// As [`step`](Self::step), of all rows or of candidates alone.
    pub(super) fn step_of(
        &mut self,
        chunks: &[Chunk],
        asked: AttendedRows,
    ) -> Vec<((usize, usize), Vec<f32>)> {
        let (case, device, ops) = (self.case, self.device.clone(), self.ops);
        let PageLayout { kv_heads: heads, key_dim, value_dim, .. } = case.spec.layout;
        let (arrays, act) = (self.arrays(chunks), ops.activation());
        let (tokens, seqs) = (arrays.rows.len(), chunks.len());
        let [key_width, value_width] = [heads * key_dim, heads * value_dim];
        let widths = [value_width, value_width, key_width, key_width, case.spec.gap];
        let uvqk = self.uvqk(&arrays, widths);
        let mut uvqk = Placed::numbers(&device, act, &uvqk, [tokens, widths.iter().sum()]);
        let [_, v, q, k, _] = uvqk.view_mut().split_columns(widths);
        let out_width = value_width + case.spec.gap;
        let mut out = Placed::poisoned(&device, act, [tokens, out_width]);
        let array = |values: &[i32]| Placed::of(&device, values, [values.len()]);
        let tables = Placed::of(&device, &self.tables.concat(), [seqs, self.table_pages]);
        let live_shape = [seqs, arrays.live_table_pages];
        let live_tables = Placed::of(&device, &arrays.live_tables, live_shape);
        let spans: Vec<i32> = arrays.spans.iter().flat_map(RowSpan::to_array).collect();
        let spans = Placed::of(&device, &spans, [tokens, 4]);
        let [tiles, candidate_tiles] = self.placed_tiles(&arrays);
        let (past, starts) = (array(&arrays.past), array(&arrays.starts));
        let (history_rows, slots) = (array(&arrays.history_rows), array(&arrays.slots));
        let row_seqs = array(&arrays.row_seqs);
        let (factors, row_times, key_times) = self.row_numbers(&arrays);
        let size = HstuStepSize { tokens, seqs, table_pages: self.table_pages };
        let bytes = ops.hstu_scratch_bytes(&case.spec.layout, size);
        let mut scratch = Placed::poisoned(&device, DType::U8, [bytes]);
        let [results, _] = out.view_mut().split_columns([value_width, case.spec.gap]);
        let args = HstuAttendArgs {
            q,
            k,
            v,
            activates: case.spec.activates,
            layer: case.spec.layer,
            scale: case.scale,
            bias: case.spec.has_bias.then(|| RelativeBias {
                by_position: &self.bias[0],
                by_time: &self.bias[1],
                buckets: &self.buckets,
                row_times: row_times.view(),
                key_times: key_times.view(),
            }),
            row_scale: match case.spec.has_factors {
                true => RowScale::Multiply(factors.view()),
                false => RowScale::DivideBy(case.divisor),
            },
            rows: asked,
            scratch: scratch.view_mut(),
            out: results,
        };
        let mut kv = HstuKv {
            layout: case.spec.layout,
            pages: self.pages.view_mut(),
            block_tables: tables.view(),
            past_tokens: past.view(),
            live_starts: starts.view(),
            history_rows: history_rows.view(),
            commit_slots: slots.view(),
            spans: spans.view(),
            live_tables: live_tables.view(),
            row_seqs: row_seqs.view(),
            tiles: tiles.views(),
            candidate_tiles: candidate_tiles.views(),
        };
        ops.hstu_attend(args, &mut kv);
        arrays.asked_rows(&out.to_numbers(), value_width, asked)
    }

    fn placed_tiles(&self, arrays: &Arrays) -> [PlacedTiles; 2] {
        let tiling = self.ops.hstu_tiling(&self.case.spec.layout);
        [&arrays.tiles, &arrays.candidate_tiles]
            .map(|tiles| PlacedTiles::new(&self.device, tiles, tiling))
    }

    fn arrays(&self, chunks: &[Chunk]) -> Arrays {
        let layout = &self.case.spec.layout;
        let most = chunks.iter().map(|chunk| chunk.candidates).max().unwrap_or(0);
        let mut arrays = Arrays {
            past: Vec::new(),
            starts: vec![0],
            history_rows: Vec::new(),
            slots: Vec::new(),
            spans: Vec::new(),
            row_seqs: Vec::new(),
            live_tables: Vec::new(),
            live_table_pages: most.div_ceil(layout.page_tokens) + 1,
            tiles: Vec::new(),
            candidate_tiles: Vec::new(),
            rows: Vec::new(),
        };
        let mut live_pages = 0;
        for (seq, chunk) in chunks.iter().enumerate() {
            let first_row = arrays.rows.len();
            let [history, _] = self.case.spec.seqs[seq];
            arrays.past.push(chunk.past as i32);
            arrays.history_rows.push(chunk.new as i32);
            for position in chunk.past..chunk.past + chunk.new {
                arrays.slots.push(slot_of(layout, &self.tables[seq], position) as i32);
                arrays.rows.push((seq, position));
            }
            for i in 0..chunk.candidates {
                arrays.slots.push(live_slot(live_pages * layout.page_tokens + i));
                arrays.rows.push((seq, history + chunk.first_candidate + i));
            }
            let pages = chunk.candidates.div_ceil(layout.page_tokens);
            let filled = arrays.live_tables.len() + arrays.live_table_pages;
            arrays.live_tables.extend((live_pages..live_pages + pages).map(|page| page as i32));
            arrays.live_tables.resize(filled, -1);
            live_pages += pages;
            for row in first_row..arrays.rows.len() {
                let RowSpan { history, candidates } =
                    self.case.seqs[seq].spans[arrays.rows[row].1].clone();
                let within = |at: usize| at.saturating_sub(chunk.first_candidate);
                let candidates = within(candidates.start)..within(candidates.end);
                arrays.spans.push(RowSpan { history, candidates });
            }
            arrays.row_seqs.resize(arrays.rows.len(), seq as i32);
            arrays.starts.push(arrays.rows.len() as i32);
            for first in (first_row..arrays.rows.len()).step_by(HSTU_TILE_ROWS) {
                let rows = first..arrays.rows.len().min(first + HSTU_TILE_ROWS);
                let tile = tile_of(seq, rows.clone(), &arrays.spans[rows]);
                arrays.tiles.push(tile);
            }
            for first in (first_row + chunk.new..arrays.rows.len()).step_by(HSTU_TILE_ROWS) {
                let rows = first..arrays.rows.len().min(first + HSTU_TILE_ROWS);
                let tile = tile_of(seq, rows.clone(), &arrays.spans[rows]);
                arrays.candidate_tiles.push(tile);
            }
        }
        arrays
    }

    /// `[tokens, widths]`: U, V, Q, K and a gap, where U and the gap are never read.
    fn uvqk(&self, arrays: &Arrays, [u, v, q, k, gap]: [usize; 5]) -> Vec<f32> {
        let mut numbers = Vec::new();
        for &(seq, row) in &arrays.rows {
            let [queries, keys, values] = &self.case.seqs[seq].live;
            numbers.extend(vec![f32::NAN; u]);
            numbers.extend(&values[row * v..(row + 1) * v]);
            numbers.extend(&queries[row * q..(row + 1) * q]);
            numbers.extend(&keys[row * k..(row + 1) * k]);
            numbers.extend(vec![f32::NAN; gap]);
        }
        numbers
    }

    /// A factor and a time for each row, and a time for each position.
    fn row_numbers(&self, arrays: &Arrays) -> (Placed, Placed, Placed) {
        let tokens = arrays.rows.len();
        let rows = || arrays.rows.iter().map(|&(seq, row)| (&self.case.seqs[seq], row));
        let factors: Vec<f32> = rows().map(|(seq, row)| seq.factors[row]).collect();
        let row_times: Vec<i64> = rows().map(|(seq, row)| seq.row_times[row]).collect();
        let longest = self.case.seqs.iter().map(|seq| seq.key_times.len()).max().unwrap_or(0);
        let mut key_times = Vec::new();
        for seq in &self.case.seqs {
            key_times.extend(&seq.key_times);
            key_times.resize(key_times.len() + longest - seq.key_times.len(), 0);
        }
        (
            Placed::of(&self.device, &factors, [tokens]),
            Placed::of(&self.device, &row_times, [tokens]),
            Placed::of(&self.device, &key_times, [self.case.seqs.len(), longest]),
        )
    }

    pub(super) fn page_count(&self) -> usize {
        self.page_count
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

fn slot_of(layout: &PageLayout, table: &[i32], position: usize) -> usize {
    let page = table[position / layout.page_tokens] as usize;
    page * layout.page_tokens + position % layout.page_tokens
}

/// What any of a tile's rows sees.
fn tile_of(seq: usize, rows: std::ops::Range<usize>, spans: &[RowSpan]) -> HstuRowTile {
    let union = |of: fn(&RowSpan) -> &std::ops::Range<usize>| {
        let seen = spans.iter().map(of).filter(|seen| !seen.is_empty()).cloned();
        seen.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    };
    let (history, candidates) = (union(|span| &span.history), union(|span| &span.candidates));
    HstuRowTile { seq, rows, history, candidates }
}

/// Tiles of keys of a part.
const SHARE: usize = 2;

impl Arrays {
    /// Which rows were asked for, and the results of these.
    fn asked_rows(
        &self,
        numbers: &[f32],
        value_width: usize,
        asked: AttendedRows,
    ) -> Vec<((usize, usize), Vec<f32>)> {
        let out_width = numbers.len() / self.rows.len();
        let rows = numbers.chunks_exact(out_width).map(|row| {
            assert!(row[value_width..].iter().all(|x| x.is_nan()), "columns beside results");
            row[..value_width].to_vec()
        });
        let rows = self.rows.iter().copied().zip(rows).zip(&self.slots);
        let is_asked = |slot: i32| asked == AttendedRows::All || slot < 0;
        rows.filter(|(_, slot)| is_asked(**slot)).map(|(row, _)| row).collect()
    }
}

/// Tiles where the ops compute.
struct PlacedTiles {
    items: Placed,
    sums: Placed,
}

impl PlacedTiles {
    fn new(device: &Device, tiles: &[HstuRowTile], tiling: HstuTiling) -> Self {
        // Where keys may be divided they are, though these are too few to be worth it.
        let HstuTiles { mut items, mut sums } = HstuTiles::cut(tiles, SHARE, tiling);
        // As a captured step is filled up.
        items.extend([0; HstuTiles::ITEM_WORDS]);
        if 0 < tiling.parts {
            sums.extend([0; HstuTiles::SUM_WORDS]);
        }
        let [item, sum] = [HstuTiles::ITEM_WORDS, HstuTiles::SUM_WORDS];
        PlacedTiles {
            items: Placed::of(device, &items, [items.len() / item, item]),
            sums: Placed::of(device, &sums, [sums.len() / sum, sum]),
        }
    }

    fn views(&self) -> HstuTileViews<'_> {
        HstuTileViews { items: self.items.view(), sums: self.sums.view() }
    }
}

/// Puts one token of a case where its layout says.
fn write_case_token(
    case: &HstuCase,
    pages: &mut [u8],
    page_bytes: usize,
    seq: usize,
    position: usize,
    slot: usize,
) {
    let (layout, [_, k, v]) = (&case.spec.layout, &case.seqs[seq].attended);
    let rows = [(k, layout.key_dim), (v, layout.value_dim)].map(|(all, dim)| {
        let width = layout.kv_heads * dim;
        &all[position * width..(position + 1) * width]
    });
    write_token(pages, page_bytes, layout, case.spec.layer, slot, rows);
}
