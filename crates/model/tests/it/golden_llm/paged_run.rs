//! A decoder driven by hand: pages in a scattered order, no engine around it.

use terrace_device::{Buffer, DType, View, Workspace};
use terrace_kernels::{Ops, PageLayout, PagedKv};
use terrace_model::{Decoder, LayerHome, LayeredKv, StepCtx, TokenRows};
use terrace_testkit::Rng;

pub struct PagedRun<'a> {
    decoder: &'a Decoder,
    ops: &'a Ops,
    layout: PageLayout,
    pages: Buffer,
    /// Physical page of each logical one, a run of `table_pages` for each sequence.
    tables: Vec<i32>,
    table_pages: usize,
    computed: Vec<usize>,
}

/// A sequence, a position in it, and the logits after that position.
pub type LogitsRow = (usize, usize, Vec<f32>);

impl<'a> PagedRun<'a> {
    /// Room for `seqs` sequences of `seq_tokens` each.
    pub fn new(
        decoder: &'a Decoder,
        ops: &'a Ops,
        page_tokens: usize,
        seq_tokens: usize,
        seqs: usize,
    ) -> Self {
        let layout = decoder.spec().page_layout(page_tokens, DType::F32);
        let table_pages = seq_tokens.div_ceil(page_tokens);
        let pages = seqs * table_pages;
        let mut tables: Vec<i32> = (0..pages as i32).collect();
        Rng::new(1).shuffle(&mut tables);
        let buffer = Buffer::zeroed(pages * layout.page_bytes(), "pages").expect("memory");
        let computed = vec![0; seqs];
        PagedRun { decoder, ops, layout, pages: buffer, tables, table_pages, computed }
    }

    /// Runs up to `chunk` more tokens of each text that has not reached its length; `None` when
    /// all have.
    pub fn step(
        &mut self,
        texts: &[Vec<u32>],
        chunk: usize,
        length: impl Fn(usize) -> usize,
    ) -> Option<Vec<LogitsRow>> {
        let mut rows = Rows::default();
        for (seq, text) in texts.iter().enumerate() {
            if text.len() < length(seq) {
                let start = self.computed[seq];
                let end = text.len().min(start.saturating_add(chunk));
                self.add_rows(&mut rows, seq, &text[start..end]);
                self.computed[seq] = end;
            }
        }
        if rows.ids.is_empty() { None } else { Some(self.run(rows)) }
    }

    fn add_rows(&self, rows: &mut Rows, seq: usize, ids: &[u32]) {
        let page_tokens = self.layout.page_tokens;
        let past = self.computed[seq];
        let table = &self.tables[seq * self.table_pages..][..self.table_pages];
        rows.block_tables.extend(table);
        rows.past_tokens.push(past as i32);
        rows.live_starts.push(rows.ids.len() as i32);
        for (offset, &id) in ids.iter().enumerate() {
            let position = past + offset;
            let slot = table[position / page_tokens] as usize * page_tokens;
            rows.commit_slots.push((slot + position % page_tokens) as i32);
            rows.positions.push(position as i32);
            rows.ids.push(id as i32);
            rows.seqs.push(seq);
        }
    }

    fn run(&mut self, mut rows: Rows) -> Vec<LogitsRow> {
        let tokens = rows.ids.len();
        let seqs = rows.past_tokens.len();
        let vocab = self.decoder.spec().vocab;
        rows.live_starts.push(tokens as i32);
        let wanted: Vec<i32> = (0..tokens as i32).collect();
        let hidden = self.decoder.spec().hidden;
        let bytes = self.decoder.workspace_bytes(self.ops, tokens, &self.layout)
            + Workspace::bytes_for(DType::F32, [tokens, hidden])
            + Workspace::bytes_for(DType::F32, [tokens, vocab]);
        let scratch = Workspace::new(&self.ops.device(), bytes).expect("memory");
        let pages = self.pages.len() / self.layout.page_bytes();
        let mut kv = PagedKv {
            layout: self.layout,
            pages: self.pages.view_mut(DType::U8, [pages, self.layout.page_bytes()]),
            block_tables: View::of(&rows.block_tables, [seqs, rows.block_tables.len() / seqs]),
            past_tokens: View::of(&rows.past_tokens, [seqs]),
            live_starts: View::of(&rows.live_starts, [seqs + 1]),
            commit_slots: View::of(&rows.commit_slots, [tokens]),
            singles: 0,
            chunk_tiles: View::of::<i32>(&[], [0, 2]),
            row_seqs: View::of::<i32>(&[], [0]),
        };
        kv.check();
        let homes: Vec<_> =
            (0..self.layout.layers).map(|layer| LayerHome { group: 0, layer }).collect();
        let ctx = StepCtx { ops: self.ops, scratch: &scratch };
        let batch = TokenRows {
            ids: View::of(&rows.ids, [tokens]),
            sampled: None,
            positions: View::of(&rows.positions, [tokens]),
            wanted: View::of(&wanted, [tokens]),
        };
        let mut layered = LayeredKv { groups: std::slice::from_mut(&mut kv), homes: &homes };
        let mut last = scratch.take(DType::F32, [tokens, hidden]);
        self.decoder.forward(ctx, batch, &mut layered, last.reborrow());
        let mut logits = scratch.take(DType::F32, [tokens, vocab]);
        self.decoder.score(ctx, last.as_view(), logits.reborrow());
        let logits = logits.into_view();
        (0..tokens)
            .map(|row| (rows.seqs[row], rows.positions[row] as usize, logits.row(row).to_vec()))
            .collect()
    }
}

#[derive(Default)]
struct Rows {
    ids: Vec<i32>,
    positions: Vec<i32>,
    seqs: Vec<usize>,
    block_tables: Vec<i32>,
    past_tokens: Vec<i32>,
    live_starts: Vec<i32>,
    commit_slots: Vec<i32>,
}
