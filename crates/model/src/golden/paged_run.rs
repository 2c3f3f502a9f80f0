//! A decoder driven by hand: pages in a scattered order, no engine around it.

use terrace_device::{Buffer, DType, Device, Workspace};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{GroupKv, KvLayout, Ops, PagedKv, RowKinds};

use super::placed::{Placed, read_rows};
use super::step_arrays::StepArrays;
use crate::decoder::{
    Decoder, KvSegment, LayeredKv, StepCtx, TokenRows, WorkspaceShape, layer_locations,
};
use crate::error::Error;
use crate::layer_group::LayerGroup;

pub struct PagedRun<'a> {
    decoder: &'a Decoder,
    ops: &'a Ops,
    groups: Vec<PagedGroup>,
    pages: Buffer,
    page_bytes: usize,
    computed: Vec<usize>,
    /// Tokens of each sequence that are its prompt's; the others count as generated.
    prompt_tokens: Vec<usize>,
}

/// Where the sequences have their pages in one group of layers.
struct PagedGroup {
    group: LayerGroup,
    /// Physical page of each logical one, a run of `table_pages` for each sequence.
    tables: Vec<i32>,
    table_pages: usize,
}

/// A sequence, a position in it, and the logits after that position.
pub type LogitsRow = (usize, usize, Vec<f32>);

impl<'a> PagedRun<'a> {
    /// Room for sequences of `seq_tokens` each, whose prompts have so many of them; `groups` are
    /// all layers of the decoder.
    pub fn new(
        decoder: &'a Decoder,
        ops: &'a Ops,
        groups: &[LayerGroup],
        seq_tokens: usize,
        prompt_tokens: Vec<usize>,
    ) -> Result<Self, Error> {
        let seqs = prompt_tokens.len();
        let table_pages = |group: &LayerGroup| seq_tokens.div_ceil(group.layout.page_tokens);
        let pages = seqs * groups.iter().map(table_pages).sum::<usize>();
        let mut shuffled = SplitMix::new(1).shuffled(pages).into_iter().map(|page| page as i32);
        let paged = groups.iter().map(|group| {
            let table_pages = table_pages(group);
            let tables = shuffled.by_ref().take(seqs * table_pages).collect();
            PagedGroup { group: group.clone(), tables, table_pages }
        });
        let groups_paged = paged.collect();
        let page_bytes = LayerGroup::page_bytes(groups);
        let pages = ops.device().take(pages * page_bytes, "pages")?;
        let computed = vec![0; seqs];
        Ok(PagedRun {
            decoder,
            ops,
            groups: groups_paged,
            pages,
            page_bytes,
            computed,
            prompt_tokens,
        })
    }

    /// Runs up to `chunk` more tokens of each text that has not reached its length; `None` when
    /// all have.
    pub fn step(
        &mut self,
        texts: &[Vec<u32>],
        chunk: usize,
        length: impl Fn(usize) -> usize,
    ) -> Result<Option<Vec<LogitsRow>>, Error> {
        let mut arrays = StepArrays::new(self.groups.len());
        let mut owners = Vec::new();
        for (seq, text) in texts.iter().enumerate() {
            if text.len() < length(seq) {
                let start = self.computed[seq];
                let end = text.len().min(start.saturating_add(chunk));
                self.add_rows(&mut arrays, seq, &text[start..end]);
                owners.extend((start..end).map(|position| (seq, position)));
                self.computed[seq] = end;
            }
        }
        if owners.is_empty() {
            return Ok(None);
        }
        let logits = self.run(&arrays)?;
        let rows = owners.into_iter().zip(logits);
        Ok(Some(rows.map(|((seq, position), row)| (seq, position, row)).collect()))
    }

    fn add_rows(&self, arrays: &mut StepArrays, seq: usize, ids: &[u32]) {
        let past = self.computed[seq];
        let row_seq = arrays.seqs() as i32;
        for (paged, arrays) in self.groups.iter().zip(&mut arrays.groups) {
            let page_tokens = paged.group.layout.page_tokens;
            let table = &paged.tables[seq * paged.table_pages..][..paged.table_pages];
            arrays.block_tables.extend(table);
            arrays.commit_slots.extend((past..past + ids.len()).map(|position| {
                let page = table[position / page_tokens] as usize;
                (page * page_tokens + position % page_tokens) as i32
            }));
        }
        arrays.past_tokens.push(past as i32);
        arrays.live_starts.push(arrays.ids.len() as i32);
        for (offset, &id) in ids.iter().enumerate() {
            let position = past + offset;
            arrays.positions.push(position as i32);
            arrays.ids.push(id as i32);
            arrays.row_seqs.push(row_seq);
            let of_its_kind = match position < self.prompt_tokens[seq] {
                true => &mut arrays.prompt_rows,
                false => &mut arrays.generated_rows,
            };
            of_its_kind.push(arrays.ids.len() as u32 - 1);
        }
    }

    /// The logits after each row.
    fn run(&mut self, arrays: &StepArrays) -> Result<Vec<Vec<f32>>, Error> {
        let (ops, decoder, device) = (self.ops, self.decoder, self.ops.device());
        let (tokens, seqs) = (arrays.ids.len(), arrays.seqs());
        let (vocab, hidden) = (decoder.spec().vocab, decoder.spec().hidden);
        let vector = |values: &[i32]| Placed::i32s(&device, values, [values.len()]);
        let (ids, positions) = (vector(&arrays.ids)?, vector(&arrays.positions)?);
        let wanted = vector(&(0..tokens as i32).collect::<Vec<_>>())?;
        let live_starts = vector(&[&arrays.live_starts[..], &[tokens as i32]].concat())?;
        let past_tokens = vector(&arrays.past_tokens)?;
        let row_seqs = vector(&arrays.row_seqs)?;
        let groups = self.groups.iter().zip(&arrays.groups).map(|(paged, arrays)| {
            let tables = Placed::i32s(&device, &arrays.block_tables, [seqs, paged.table_pages])?;
            Ok((paged.group.layout, tables, vector(&arrays.commit_slots)?))
        });
        let groups: Vec<_> = groups.collect::<Result<_, Error>>()?;
        let tiles = arrays.chunk_tiles();
        let chunk_tiles = Placed::i32s(&device, &tiles, [tiles.len() / 2, 2])?;

        let layouts: Vec<_> = groups.iter().map(|(layout, ..)| KvLayout::Dense(*layout)).collect();
        let shape = WorkspaceShape { tokens, groups: groups.len(), layouts: &layouts };
        let bytes = decoder.workspace_bytes(ops, shape)
            + Workspace::bytes_for(ops.activation(), [tokens, hidden])
            + Workspace::bytes_for(DType::F32, [tokens, vocab]);
        let scratch = Workspace::new(&device, bytes)?;
        let groups = groups.iter().map(|(layout, tables, commit_slots)| {
            GroupKv::Dense(PagedKv {
                layout: *layout,
                pages: GroupKv::no_pages(),
                block_tables: tables.view(),
                past_tokens: past_tokens.view(),
                live_starts: live_starts.view(),
                commit_slots: commit_slots.view(),
                singles: arrays.singles(),
                chunk_tiles: chunk_tiles.view(),
                row_seqs: row_seqs.view(),
            })
        });
        let mut groups: Vec<_> = groups.collect();
        let pages = self.pages.len() / self.page_bytes;
        let mut pages = self.pages.view_mut(DType::U8, [pages, self.page_bytes]);
        for group in &mut groups {
            if let (Device::Cpu, GroupKv::Dense(kv)) = (&device, group.with_pages(pages.reborrow()))
            {
                kv.check();
            }
        }
        let locations = layer_locations(self.groups.iter().map(|paged| &paged.group.layers[..]));
        let mut segments = [KvSegment { rows: 0..tokens, groups, locations: &locations }];
        let layered = LayeredKv { pages, segments: &mut segments, before_layer: None };
        let ctx = StepCtx { ops, scratch: &scratch };
        let rows = TokenRows {
            ids: ids.view(),
            sampled: None,
            positions: positions.view(),
            row_kinds: RowKinds::Listed {
                prompt: &arrays.prompt_rows,
                generated: &arrays.generated_rows,
            },
            wanted: wanted.view(),
        };
        let mut last = scratch.take(ops.activation(), [tokens, hidden]);
        decoder.forward(ctx, rows, layered, last.reborrow());
        let mut logits = scratch.take(DType::F32, [tokens, vocab]);
        decoder.score(ctx, last.as_view(), logits.reborrow());
        read_rows(&device, logits.into_view())
    }
}
