//! Attention over all tokens of sequences.

use terrace_device::{Buffer, DType, View, ViewMut};
use terrace_kernels::{AttentionArgs, CpuOps, PageLayout, PagedKv};

use crate::attention::{Heads, Measured, PAGE_TOKENS, Step, fill};

pub struct Pages {
    layout: PageLayout,
    heads: usize,
    step: Step,
    pages: Buffer,
    live: [Buffer; 2],
    queries: Vec<f32>,
    out: Vec<f32>,
    rows: Vec<u32>,
    table: Vec<i32>,
    past_tokens: Vec<i32>,
    live_starts: Vec<i32>,
    commit_slots: Vec<i32>,
}

impl Pages {
    pub fn new(heads: &Heads, step: Step, dtype: DType) -> Self {
        let Heads { heads, kv_heads, head_dim } = *heads;
        let layout = PageLayout {
            layers: 1,
            kv_heads,
            page_tokens: PAGE_TOKENS,
            key_dim: head_dim,
            value_dim: head_dim,
            dtype,
        };
        let (tokens, seq_pages) = (step.seqs * step.live, step.keys.div_ceil(PAGE_TOKENS));
        let buffer = |bytes: usize| {
            let mut buffer = Buffer::zeroed(bytes, "keys and values").expect("memory");
            fill(buffer.bytes_mut(), dtype);
            buffer
        };
        let past = step.keys - step.live;
        Pages {
            layout,
            heads,
            step,
            pages: buffer(step.seqs * seq_pages * layout.page_bytes()),
            live: [(); 2].map(|()| buffer(tokens * kv_heads * head_dim * dtype.bytes())),
            queries: (0..tokens * heads * head_dim).map(|i| (i % 61) as f32 / 61.0).collect(),
            out: vec![0.0; tokens * heads * head_dim],
            rows: (0..tokens as u32).collect(),
            table: (0..(step.seqs * seq_pages) as i32).collect(),
            past_tokens: vec![past as i32; step.seqs],
            live_starts: (0..=step.seqs).map(|seq| (seq * step.live) as i32).collect(),
            commit_slots: vec![0; tokens],
        }
    }

    pub fn measured<'a>(&'a mut self, ops: &'a CpuOps) -> Measured<'a> {
        let Pages { layout, heads, step, .. } = *self;
        let tokens = step.seqs * step.live;
        let queries = [tokens, heads, layout.key_dim];
        let live = [tokens, layout.kv_heads, layout.key_dim];
        let pages = self.table.len();
        let kv = PagedKv {
            layout,
            pages: self.pages.view_mut(DType::U8, [pages, layout.page_bytes()]),
            block_tables: View::of(&self.table, [step.seqs, pages / step.seqs]),
            past_tokens: View::of(&self.past_tokens, [step.seqs]),
            live_starts: View::of(&self.live_starts, [step.seqs + 1]),
            commit_slots: View::of(&self.commit_slots, [tokens]),
            singles: 0,
            chunk_tiles: View::of::<i32>(&[], [0, 2]),
            row_seqs: View::of::<i32>(&[], [0]),
        };
        let row_kinds = step.row_kinds(&self.rows);
        let [live_k, live_v] = &self.live;
        let (q, out) = (&self.queries, &mut self.out);
        Measured {
            name: format!("pages of {}", layout.dtype.name()),
            bytes: step.seqs * step.keys * layout.page_bytes() / PAGE_TOKENS,
            run: Box::new(move || {
                ops.paged_attention(AttentionArgs {
                    q: View::of(q, queries),
                    row_kinds,
                    live_k: live_k.view(layout.dtype, live),
                    live_v: live_v.view(layout.dtype, live),
                    kv: &kv,
                    layer: 0,
                    scale: 0.125,
                    window: None,
                    out: ViewMut::of(out, queries),
                });
            }),
        }
    }
}
