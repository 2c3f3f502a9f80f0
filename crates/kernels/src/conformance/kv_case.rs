//! A random step of attention, with the plain rows it is made of.
//!
//! Physical pages are handed out in random order, and every slot that holds no past token is
//! poisoned, so an op that reads where it should not gives NaN.

use terrace_device::{Buffer, DType, View, ViewMut};

use super::SplitMix;
use super::numbers::{self, encoded, rounded_rows};
use super::page_bytes::write_token;
use crate::attention::dense::AttentionArgs;
use crate::attention::dense::reference;
use crate::cpu_ops::CpuOps;
use crate::linear::row_kinds::RowKinds;
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::{CHUNK_TILE_TOKENS, PagedKv};
use crate::quantise::byte_format::ByteFormat;

#[derive(Clone, Debug)]
pub struct KvSpec {
    pub layout: PageLayout,
    pub layer: usize,
    pub heads: usize,
    pub window: Option<usize>,
    /// Past and live tokens of each sequence.
    pub seqs: Vec<[usize; 2]>,
    /// Positions below are a prompt's.
    pub prompt_tokens: usize,
}

pub struct KvCase {
    pub spec: KvSpec,
    /// For each sequence, `[past + live, heads or kv_heads, dim]`, already rounded to page dtype
    /// (queries over fp8 pages to f16).
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
    chunk_tiles: Vec<i32>,
    row_seqs: Vec<i32>,
}

impl KvCase {
    pub fn new(spec: KvSpec, random: &mut SplitMix) -> Self {
        let layout = spec.layout;
        let mut rows = |heads: usize, dim: usize, dtype: DType| -> Vec<Vec<f32>> {
            let totals = spec.seqs.iter().map(|[past, live]| past + live);
            totals
                .map(|total| rounded_rows(random.numbers(total * heads * dim), dim, dtype))
                .collect()
        };
        let query_dtype = match layout.dtype {
            DType::F8E4m3 | DType::F8E5m2 => DType::F16,
            dtype => dtype,
        };
        let q = rows(spec.heads, layout.key_dim, query_dtype);
        let keys = rows(layout.kv_heads, layout.key_dim, layout.dtype);
        let values = rows(layout.kv_heads, layout.value_dim, layout.dtype);
        Self::of_rows(spec, q, keys, values, random)
    }

    /// The same rows under another division into past and live.
    pub fn of_rows(
        spec: KvSpec,
        q: Vec<Vec<f32>>,
        keys: Vec<Vec<f32>>,
        values: Vec<Vec<f32>>,
        random: &mut SplitMix,
    ) -> Self {
        let page_tokens = spec.layout.page_tokens;
        let pages_of = |[past, live]: &[usize; 2]| (past + live).div_ceil(page_tokens);
        let table_pages = spec.seqs.iter().map(pages_of).max().unwrap_or(0) + 1;
        let page_count = spec.seqs.iter().map(pages_of).sum::<usize>() + 3;
        let mut case = KvCase {
            q,
            keys,
            values,
            // Bytes of ones are a NaN in every dtype, whichever part of a number they are.
            pages: vec![0xff; page_count * spec.layout.page_bytes()],
            page_count,
            table_pages,
            block_tables: vec![-1; spec.seqs.len() * table_pages],
            past_tokens: spec.seqs.iter().map(|[past, _]| *past as i32).collect(),
            live_starts: vec![0],
            commit_slots: Vec::new(),
            chunk_tiles: Vec::new(),
            row_seqs: Vec::new(),
            spec,
        };
        case.hand_out_pages(random.shuffled(page_count));
        case
    }

    pub fn tokens(&self) -> usize {
        self.commit_slots.len()
    }

    /// The rows of prompts, and generated ones.
    pub fn row_kinds(&self) -> [Vec<u32>; 2] {
        let (mut prompt, mut generated) = (Vec::new(), Vec::new());
        for (pair, past) in self.live_starts.windows(2).zip(&self.past_tokens) {
            for (offset, row) in (pair[0]..pair[1]).enumerate() {
                let is_prompt = *past as usize + offset < self.spec.prompt_tokens;
                if is_prompt { &mut prompt } else { &mut generated }.push(row as u32);
            }
        }
        [prompt, generated]
    }

    /// What `paged_attention` writes for this step: `[tokens, heads, value_dim]`.
    pub fn attend(&mut self, ops: &CpuOps) -> Vec<f32> {
        let (tokens, spec) = (self.tokens(), self.spec.clone());
        let q = self.live(&self.q);
        let [live_k, live_v] = self.live_rows();
        let layout = spec.layout;
        let mut out = vec![f32::NAN; tokens * spec.heads * layout.value_dim];
        let [prompt, generated] = self.row_kinds();
        let kv = self.paged_kv();
        kv.check();
        ops.paged_attention(AttentionArgs {
            q: View::of(&q, [tokens, spec.heads, layout.key_dim]),
            row_kinds: RowKinds::Listed { prompt: &prompt, generated: &generated },
            live_k: live_k.view(layout.dtype, live_dims(layout, tokens, layout.key_dim)),
            live_v: live_v.view(layout.dtype, live_dims(layout, tokens, layout.value_dim)),
            kv: &kv,
            layer: spec.layer,
            scale: self::scale(layout),
            window: spec.window,
            out: ViewMut::of(&mut out, [tokens, spec.heads, layout.value_dim]),
        });
        out
    }

    /// Commits the live rows, and makes them past.
    pub fn commit(&mut self) {
        let (tokens, layout, layer) = (self.tokens(), self.spec.layout, self.spec.layer);
        let [live_k, live_v] = self.live_rows();
        let mut kv = self.paged_kv();
        let live = [(&live_k, layout.key_dim), (&live_v, layout.value_dim)];
        let live = live.map(|(rows, dim)| rows.view(layout.dtype, live_dims(layout, tokens, dim)));
        kv.commit(live, layer);
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

    /// All numbers of pages, read by the layout; not a number where a poisoned slot is untouched.
    pub(super) fn page_numbers(&self, pages: &[u8]) -> Vec<f32> {
        let PageLayout { kv_heads, page_tokens, key_dim, value_dim, dtype, .. } = self.spec.layout;
        let Some(format) = ByteFormat::of(dtype) else { return numbers::read(pages, dtype) };
        let rows = kv_heads * page_tokens;
        let mut numbers = Vec::new();
        let mut rest = pages;
        for dim in [key_dim, value_dim].into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (side, scales);
            (side, rest) = rest.split_at(rows * dim);
            (scales, rest) = rest.split_at((4 * rows).next_multiple_of(16));
            for (row, scale) in side.chunks_exact(dim).zip(numbers::read(scales, DType::F32)) {
                numbers.extend(row.iter().map(|number| format.decode(*number, scale)));
            }
        }
        numbers
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
        let singles = self.singles();
        PagedKv {
            layout: self.spec.layout,
            pages: ViewMut::of(&mut self.pages, [self.page_count, page_bytes]),
            block_tables: View::of(&self.block_tables, [seqs, self.table_pages]),
            past_tokens: View::of(&self.past_tokens, [seqs]),
            live_starts: View::of(&self.live_starts, [seqs + 1]),
            commit_slots: View::of(&self.commit_slots, [self.commit_slots.len()]),
            singles,
            chunk_tiles: View::of(&self.chunk_tiles, [self.chunk_tiles.len() / 2, 2]),
            row_seqs: View::of(&self.row_seqs, [self.row_seqs.len()]),
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
                    self.row_seqs.push(seq as i32);
                }
            }
            if self.singles() <= seq {
                let firsts = (0..live).step_by(CHUNK_TILE_TOKENS);
                self.chunk_tiles.extend(firsts.flat_map(|first| [seq as i32, first as i32]));
            }
            self.live_starts.push(self.commit_slots.len() as i32);
        }
        self.pages = pages;
    }

    fn write_token(&self, pages: &mut [u8], seq: usize, position: usize, slot: usize) {
        let (layout, layer) = (&self.spec.layout, self.spec.layer);
        let rows = [(&self.keys, layout.key_dim), (&self.values, layout.value_dim)];
        let rows = rows.map(|(all, dim)| {
            let width = layout.kv_heads * dim;
            &all[seq][position * width..(position + 1) * width]
        });
        write_token(pages, layout.page_bytes(), layout, layer, slot, rows);
    }

    /// Sequences of one live row, before the first that has more.
    fn singles(&self) -> usize {
        self.spec.seqs.iter().take_while(|[_, live]| *live == 1).count()
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
        let PageLayout { key_dim, value_dim, dtype, .. } = self.spec.layout;
        [(&self.keys, key_dim), (&self.values, value_dim)].map(|(rows, dim)| {
            let live = self.live(rows);
            let rows = live.chunks_exact(dim).map(|row| encoded(row, dtype));
            let bytes: Vec<u8> =
                rows.flat_map(|(numbers, scale)| [numbers, scale].concat()).collect();
            let mut buffer =
                Buffer::zeroed(bytes.len(), "conformance rows").expect("a small buffer");
            buffer.bytes_mut().copy_from_slice(&bytes);
            buffer
        })
    }
}

pub(super) fn scale(layout: PageLayout) -> f32 {
    // Larger than usual, so that the softmax is far from even.
    4.0 / (layout.key_dim as f32).sqrt()
}

fn live_dims(layout: PageLayout, tokens: usize, dim: usize) -> [usize; 3] {
    let scale_bytes = if layout.dtype.bytes() == 1 { 4 } else { 0 };
    [tokens, layout.kv_heads, dim + scale_bytes]
}
