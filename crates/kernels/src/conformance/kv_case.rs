//! A random step of attention, with the plain rows it is made of.
//!
//! Physical pages are handed out in random order, and every slot that holds no past token is
//! poisoned, so an op that reads where it should not gives NaN.

use terrace_device::{Buffer, View, ViewMut};

use super::Random;
use super::numbers::{rounded, write};
use crate::cpu_ops::{AttentionArgs, CpuOps};
use crate::paged_attention::reference;
use crate::paged_kv::{PageLayout, PagedKv};

#[derive(Clone, Debug)]
pub struct KvSpec {
    pub layout: PageLayout,
    pub layer: usize,
    pub heads: usize,
    pub window: Option<usize>,
    /// Past and live tokens of each sequence.
    pub seqs: Vec<[usize; 2]>,
}

pub struct KvCase {
    pub spec: KvSpec,
    /// For each sequence, `[past + live, heads or kv_heads, dim]`, already rounded to page dtype.
    pub q: Vec<Vec<f32>>,
    pub keys: Vec<Vec<f32>>,
    pub values: Vec<Vec<f32>>,
    pages: Vec<u8>,
    page_count: usize,
    table_pages: usize,
    block_tables: Vec<i32>,
    past_tokens: Vec<i32>,
    live_starts: Vec<i32>,
    commit_slots: Vec<i32>,
}

impl KvCase {
    pub fn new(spec: KvSpec, random: &mut Random) -> Self {
        let layout = spec.layout;
        let mut rows = |count: usize| -> Vec<Vec<f32>> {
            let totals = spec.seqs.iter().map(|[past, live]| past + live);
            totals.map(|total| rounded(random.numbers(total * count), layout.dtype)).collect()
        };
        let q = rows(spec.heads * layout.key_dim);
        let keys = rows(layout.kv_heads * layout.key_dim);
        let values = rows(layout.kv_heads * layout.value_dim);
        Self::of_rows(spec, q, keys, values, random)
    }

    /// The same rows under another division into past and live.
    pub fn of_rows(
        spec: KvSpec,
        q: Vec<Vec<f32>>,
        keys: Vec<Vec<f32>>,
        values: Vec<Vec<f32>>,
        random: &mut Random,
    ) -> Self {
        let page_tokens = spec.layout.page_tokens;
        let pages_of = |[past, live]: &[usize; 2]| (past + live).div_ceil(page_tokens);
        let table_pages = spec.seqs.iter().map(pages_of).max().unwrap_or(0) + 1;
        let page_count = spec.seqs.iter().map(pages_of).sum::<usize>() + 3;
        let mut case = KvCase {
            q,
            keys,
            values,
            // Two bytes of ones are a NaN in every dtype, whichever half of an f32 they are.
            pages: vec![0xff; page_count * spec.layout.page_bytes()],
            page_count,
            table_pages,
            block_tables: vec![-1; spec.seqs.len() * table_pages],
            past_tokens: spec.seqs.iter().map(|[past, _]| *past as i32).collect(),
            live_starts: vec![0],
            commit_slots: Vec::new(),
            spec,
        };
        case.hand_out_pages(random.shuffled(page_count));
        case
    }

    pub fn tokens(&self) -> usize {
        self.commit_slots.len()
    }

    /// What `paged_attention` writes for this step: `[tokens, heads, value_dim]`.
    pub fn attend(&mut self, ops: &CpuOps) -> Vec<f32> {
        let (tokens, spec) = (self.tokens(), self.spec.clone());
        let q = self.live(&self.q);
        let [live_k, live_v] = self.live_rows();
        let layout = spec.layout;
        let mut out = vec![f32::NAN; tokens * spec.heads * layout.value_dim];
        let kv = self.paged_kv();
        kv.check();
        ops.paged_attention(AttentionArgs {
            q: View::of(&q, [tokens, spec.heads, layout.key_dim]),
            live_k: live_k.view(layout.dtype, [tokens, layout.kv_heads, layout.key_dim]),
            live_v: live_v.view(layout.dtype, [tokens, layout.kv_heads, layout.value_dim]),
            kv: &kv,
            layer: spec.layer,
            scale: self::scale(layout),
            window: spec.window,
            out: ViewMut::of(&mut out, [tokens, spec.heads, layout.value_dim]),
        });
        out
    }

    /// Commits the live rows, and makes them past.
    pub fn commit(&mut self, ops: &CpuOps) {
        let (tokens, layout, layer) = (self.tokens(), self.spec.layout, self.spec.layer);
        let [live_k, live_v] = self.live_rows();
        let mut kv = self.paged_kv();
        ops.commit(
            live_k.view(layout.dtype, [tokens, layout.kv_heads, layout.key_dim]),
            live_v.view(layout.dtype, [tokens, layout.kv_heads, layout.value_dim]),
            &mut kv,
            layer,
        );
    }

    /// What the pages hold once the live rows are in their slots.
    pub fn pages_after_commit(&self) -> Vec<u8> {
        let mut pages = self.pages.clone();
        let mut slots = self.commit_slots.iter();
        for (seq, &[past, live]) in self.spec.seqs.iter().enumerate() {
            for (position, slot) in (past..past + live).zip(slots.by_ref()) {
                self.write_token(&mut pages, seq, position, *slot as usize);
            }
        }
        pages
    }

    /// The bytes of all pages.
    pub fn pages(&self) -> &[u8] {
        &self.pages
    }

    /// What attention should write, from the plain rows.
    pub fn attention_wanted(&self) -> Vec<f32> {
        let layout = self.spec.layout;
        let (heads, kv_heads) = (self.spec.heads, layout.kv_heads);
        let mut want = Vec::new();
        for (seq, &[past, live]) in self.spec.seqs.iter().enumerate() {
            let (keys, values) = (&self.keys[seq], &self.values[seq]);
            for position in past..past + live {
                for head in 0..heads {
                    let at = (position * heads + head) * layout.key_dim;
                    let kv_head = head / (heads / kv_heads);
                    let window = self.spec.window.unwrap_or(position + 1);
                    let mut out = vec![f32::NAN; layout.value_dim];
                    reference::attend(
                        &self.q[seq][at..at + layout.key_dim],
                        scale(layout),
                        (position + 1).saturating_sub(window)..position + 1,
                        |j, i| keys[(j * kv_heads + kv_head) * layout.key_dim + i],
                        |j, i| values[(j * kv_heads + kv_head) * layout.value_dim + i],
                        &mut out,
                    );
                    want.extend(out);
                }
            }
        }
        want
    }

    pub fn paged_kv(&mut self) -> PagedKv<'_> {
        let (seqs, page_bytes) = (self.spec.seqs.len(), self.spec.layout.page_bytes());
        PagedKv {
            layout: self.spec.layout,
            pages: ViewMut::of(&mut self.pages, [self.page_count, page_bytes]),
            block_tables: View::of(&self.block_tables, [seqs, self.table_pages]),
            past_tokens: View::of(&self.past_tokens, [seqs]),
            live_starts: View::of(&self.live_starts, [seqs + 1]),
            commit_slots: View::of(&self.commit_slots, [self.commit_slots.len()]),
        }
    }

    /// Fills tables, slots and the past tokens' bytes.
    fn hand_out_pages(&mut self, mut free: Vec<usize>) {
        let page_tokens = self.spec.layout.page_tokens;
        let mut pages = std::mem::take(&mut self.pages);
        for (seq, [past, live]) in self.spec.seqs.clone().into_iter().enumerate() {
            for position in 0..past + live {
                let entry = seq * self.table_pages + position / page_tokens;
                let offset = position % page_tokens;
                if offset == 0 {
                    self.block_tables[entry] = free.pop().expect("pages were counted") as i32;
                }
                let slot = self.block_tables[entry] as usize * page_tokens + offset;
                if position < past {
                    self.write_token(&mut pages, seq, position, slot);
                } else {
                    self.commit_slots.push(slot as i32);
                }
            }
            self.live_starts.push(self.commit_slots.len() as i32);
        }
        self.pages = pages;
    }

    /// Puts one token where the layout says, spelled out here once more on purpose.
    fn write_token(&self, pages: &mut [u8], seq: usize, position: usize, slot: usize) {
        let PageLayout { kv_heads, page_tokens, key_dim, value_dim, dtype, .. } = self.spec.layout;
        let (page, offset) = (slot / page_tokens, slot % page_tokens);
        let layer_bytes = kv_heads * page_tokens * (key_dim + value_dim) * dtype.bytes();
        let layer =
            &mut pages[page * self.spec.layout.page_bytes()..][self.spec.layer * layer_bytes..];
        for head in 0..kv_heads {
            let (row, slot) = (position * kv_heads + head, head * page_tokens + offset);
            let key = &self.keys[seq][row * key_dim..(row + 1) * key_dim];
            write(layer, slot * key_dim * dtype.bytes(), key, dtype);
            let value = &self.values[seq][row * value_dim..(row + 1) * value_dim];
            let numbers_before = kv_heads * page_tokens * key_dim + slot * value_dim;
            write(layer, numbers_before * dtype.bytes(), value, dtype);
        }
    }

    /// The live part of each sequence's rows, one after the other.
    fn live(&self, rows: &[Vec<f32>]) -> Vec<f32> {
        let live = self.spec.seqs.iter().zip(rows).flat_map(|([past, live], rows)| {
            let width = rows.len() / (past + live).max(1);
            &rows[past * width..]
        });
        live.copied().collect()
    }

    fn live_rows(&self) -> [Buffer; 2] {
        [&self.keys, &self.values].map(|rows| {
            let (live, dtype) = (self.live(rows), self.spec.layout.dtype);
            let bytes = live.len() * dtype.bytes();
            let mut buffer = Buffer::zeroed(bytes, "conformance rows").expect("a small buffer");
            write(buffer.bytes_mut(), 0, &live, dtype);
            buffer
        })
    }
}

pub(super) fn scale(layout: PageLayout) -> f32 {
    // Larger than usual, so that the softmax is far from even.
    4.0 / (layout.key_dim as f32).sqrt()
}
