//! A layer's slots chosen by the op that serves, for the rules that it has.
//!
//! To the op every head of every sequence is a sequence with one head, so that what it chooses lies
//! as training wants it. A page is all slots of a head: their positions and scores, and no rows.

use std::sync::Arc;

use terrace_cache::policy::{Placement, Rule, TableShape, Weighting};
use terrace_device::DType;
use terrace_kernels::{RowFormat, SlotKv, SlotLayout, SlotNotes, TuneOps};

use crate::error::Error;
use crate::tensor::Tensor;

pub(crate) struct OpPolicy {
    rule: Rule,
    shape: TableShape,
    seqs: usize,
    layout: SlotLayout,
    /// u8 `[seqs * kv_heads, page_bytes]`
    pages: Tensor,
    /// i32 `[seqs * kv_heads, 1]`: the page of each.
    tables: Tensor,
    rows: Option<ChunkRows>,
    seen_tokens: usize,
    first_chunk: usize,
    /// Of chunks that were not taken.
    placed: Vec<Arc<Tensor>>,
}

/// Where the rows of a chunk's heads lie, all with as many tokens.
struct ChunkRows {
    tokens: usize,
    /// i32 `[seqs * kv_heads + 1]`
    starts: Tensor,
    /// i32 `[seqs * kv_heads * tokens]`
    heads: Tensor,
    /// No op that chooses reads tiles: i32 `[1, 2]`.
    tiles: Tensor,
}

impl OpPolicy {
    /// Whether the op decides by nothing but positions and what was attended to.
    pub fn knows(rule: &Rule) -> bool {
        match rule {
            Rule::Keep => true,
            Rule::Recent(rule) => rule.text_segment.is_none(),
            Rule::Scored(rule) => {
                rule.weighting == Weighting::Attention && rule.score_share.is_none()
            }
        }
    }

    pub fn new(
        ops: &TuneOps<'_>,
        rule: Rule,
        shape: TableShape,
        seqs: usize,
    ) -> Result<Self, Error> {
        let rule = rule.checked(shape.slots)?;
        let notes = SlotNotes { scores: rule.wants_weights(), ..SlotNotes::default() };
        let layout = SlotLayout {
            layers: 1,
            kv_heads: 1,
            page_slots: shape.slots,
            key_dim: 0,
            value_dim: 0,
            keys: RowFormat::F32,
            values: RowFormat::F32,
            notes,
        };
        let heads = seqs * shape.kv_heads;
        let numbers: Vec<i32> = (0..heads as i32).collect();
        // Positions of no token, and whatever scores: a slot's begins when it gets a token.
        let nothing = vec![u8::MAX; heads * layout.page_bytes()];
        Ok(OpPolicy {
            rule,
            shape,
            seqs,
            layout,
            pages: Tensor::of(ops, "scores of slots", &nothing, [heads, layout.page_bytes()])?,
            tables: Tensor::of(ops, "scores of slots", &numbers, [heads, 1])?,
            rows: None,
            seen_tokens: 0,
            first_chunk: 0,
            placed: Vec::new(),
        })
    }

    pub fn shape(&self) -> TableShape {
        self.shape
    }

    /// Whether it asks what the chunk that was chosen for attended to. The first one leaves no
    /// scores.
    pub fn wants_weights(&self) -> bool {
        self.rule.wants_weights() && self.first_chunk < self.seen_tokens
    }

    /// i32 `[seqs * kv_heads, tokens]`
    pub fn choose(&mut self, ops: &TuneOps<'_>, tokens: usize) -> Result<Arc<Tensor>, Error> {
        if self.seen_tokens == 0 {
            self.first_chunk = tokens;
        }
        let (past, heads) = (self.seen_tokens, self.heads());
        let rule = self.rule.slot_rule(self.shape.slots, past, tokens, self.first_chunk)?;
        let words = rule.to_words();
        let rules = Tensor::of(ops, "rules", &words.repeat(heads), [heads, words.len()])?;
        if self.rows.as_ref().is_none_or(|rows| rows.tokens != tokens) {
            self.rows = Some(ChunkRows::new(ops, heads, tokens)?);
        }
        let rows = self.rows.as_ref().expect("made above");
        let mut chosen = Tensor::unset_of(ops, "slots of a chunk", DType::I32, [heads, tokens])?;
        ops.choose_slots(&mut SlotKv {
            layout: self.layout,
            pages: self.pages.view_mut(),
            block_tables: self.tables.view(),
            rules: rules.view(),
            live_starts: rows.starts.view(),
            slots: chosen.as_shape_mut([1, heads * tokens, 1]),
            rerotated_positions: None,
            scorers: &[],
            read_rope: None,
            singles: if tokens == 1 { heads } else { 0 },
            chunk_tiles: rows.tiles.view(),
            row_seqs: rows.heads.view(),
        });
        self.seen_tokens += tokens;
        let chosen = Arc::new(chosen);
        self.placed.push(Arc::clone(&chosen));
        Ok(chosen)
    }

    /// weights: f32 `[seqs * kv_heads, filled]`
    pub fn add_weights(&mut self, ops: &TuneOps<'_>, weights: &Tensor) {
        let [heads, filled] = weights.view().dims();
        let page_numbers = self.layout.page_bytes() / DType::F32.bytes();
        let first = self.layout.offsets(0).scores / DType::F32.bytes();
        let pages = self.pages.view_mut().cast_bytes(DType::F32, [heads, page_numbers]);
        let [_, scores, _] = pages.split_columns([first, filled, page_numbers - first - filled]);
        ops.add(scores, weights.view());
    }

    /// What was placed since the last call, `[chunks][seqs]`.
    pub fn take_placed(&mut self, ops: &TuneOps<'_>) -> Result<Vec<Vec<Placement>>, Error> {
        let placed = std::mem::take(&mut self.placed);
        let of_chunk = |chosen: Arc<Tensor>| {
            let [_, tokens] = chosen.view().dims();
            let slots: Vec<u32> = chosen.ids(ops)?.into_iter().map(i32::cast_unsigned).collect();
            let each = slots.chunks_exact(self.shape.kv_heads * tokens);
            Ok(each.map(|slots| Placement { tokens, slots: slots.to_vec() }).collect())
        };
        placed.into_iter().map(of_chunk).collect()
    }

    fn heads(&self) -> usize {
        self.seqs * self.shape.kv_heads
    }
}

impl ChunkRows {
    fn new(ops: &TuneOps<'_>, heads: usize, tokens: usize) -> Result<Self, Error> {
        let starts: Vec<i32> = (0..=heads).map(|head| (head * tokens) as i32).collect();
        let of_rows: Vec<i32> = (0..heads * tokens).map(|row| (row / tokens) as i32).collect();
        Ok(ChunkRows {
            tokens,
            starts: Tensor::of(ops, "rows of heads", &starts, [heads + 1])?,
            heads: Tensor::of(ops, "rows of heads", &of_rows, [heads * tokens])?,
            tiles: Tensor::of(ops, "rows of heads", &[0i32; 2], [1, 2])?,
        })
    }
}
