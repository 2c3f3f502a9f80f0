//! Which slot each token of a sequence went to, in every layer and head: enough to run the same
//! cache again without scores.
//!
//! Tokens that fit the cache sit in the slot of their position and are not written down; of the
//! others each takes as many bits as the slots need. Bytes of a log are little endian: `TSLT`, a
//! version, chunks and their lengths, layers and their shapes, then each head's packed slots.

use std::ops::Range;

use super::error::PolicyError;
use super::slot_table::{Placement, TableShape};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayLog {
    chunks: Vec<usize>,
    layers: Vec<LayerLog>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LayerLog {
    shape: TableShape,
    /// Tokens that were recorded.
    tokens: usize,
    /// One for each head.
    heads: Vec<PackedSlots>,
}

/// Numbers below a limit, each in as many bits as the limit needs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackedSlots {
    bits: u32,
    len: usize,
    words: Vec<u64>,
}

const MAGIC: &[u8; 4] = b"TSLT";
const VERSION: u32 = 1;
/// More heads than any model has: a number beyond it is damage, not a size to reserve.
const KV_HEADS_MOST: usize = 1024;

impl ReplayLog {
    /// `layers`: the shape of each layer's table.
    pub fn new(layers: &[TableShape]) -> Self {
        let layers = layers.iter().map(|shape| LayerLog::new(*shape)).collect();
        ReplayLog { chunks: Vec::new(), layers }
    }

    /// A chunk begins; each layer's placement of it follows.
    pub fn begin_chunk(&mut self, tokens: usize) {
        self.chunks.push(tokens);
    }

    /// Where the last chunk's tokens went in a layer.
    pub fn record(&mut self, layer: usize, placement: &Placement) {
        assert_eq!(self.chunks.last(), Some(&placement.tokens), "tokens of the last chunk");
        self.layers[layer].record(placement);
    }

    /// Lengths of the chunks so far.
    pub fn chunks(&self) -> &[usize] {
        &self.chunks
    }

    pub fn tokens(&self) -> usize {
        self.chunks.iter().sum()
    }

    pub fn shape(&self, layer: usize) -> TableShape {
        self.layers[layer].shape
    }

    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The slot that each of these tokens went to in a head.
    pub fn slots(
        &self,
        layer: usize,
        head: usize,
        positions: Range<usize>,
    ) -> impl Iterator<Item = u32> {
        let log = &self.layers[layer];
        assert!(positions.end <= log.tokens, "{positions:?} of {} tokens", log.tokens);
        positions.map(move |position| match position.checked_sub(log.shape.slots) {
            None => position as u32,
            Some(beyond) => log.heads[head].get(beyond),
        })
    }

    /// The position in each filled slot of a head after the first `tokens` tokens.
    pub fn positions(&self, layer: usize, head: usize, tokens: usize) -> Vec<i32> {
        let mut positions = vec![0; tokens.min(self.layers[layer].shape.slots)];
        for (position, slot) in self.slots(layer, head, 0..tokens).enumerate() {
            positions[slot as usize] = position as i32;
        }
        positions
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let shapes = self.layers.iter().flat_map(|log| [log.shape.kv_heads, log.shape.slots]);
        let counts = [self.chunks.len(), self.layers.len()].into_iter();
        let numbers = counts.chain(self.chunks.iter().copied()).chain(shapes);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(numbers.flat_map(|number| (number as u32).to_le_bytes()));
        let heads = self.layers.iter().flat_map(|log| &log.heads);
        bytes.extend(heads.flat_map(|head| &head.words).flat_map(|word| word.to_le_bytes()));
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PolicyError> {
        let mut reader = Reader { bytes };
        if reader.take(4)? != MAGIC || reader.number()? != VERSION as usize {
            return Err(damaged("it does not begin as one of this version does"));
        }
        let (chunks, layers) = (reader.number()?, reader.number()?);
        let chunks = reader.numbers(chunks)?;
        let shapes = reader.numbers(layers.saturating_mul(2))?;
        let tokens = chunks.iter().sum();
        let shapes = shapes.chunks_exact(2);
        let layer = |pair: &[usize]| reader.layer(pair[0], pair[1], tokens);
        let layers = shapes.map(layer).collect::<Result<_, _>>()?;
        if !reader.bytes.is_empty() {
            return Err(damaged(&format!("{} bytes are left over", reader.bytes.len())));
        }
        Ok(ReplayLog { chunks, layers })
    }
}

impl LayerLog {
    fn new(shape: TableShape) -> Self {
        let heads = vec![PackedSlots::new(shape.slots); shape.kv_heads];
        LayerLog { shape, tokens: 0, heads }
    }

    fn record(&mut self, placement: &Placement) {
        let slots_of_heads = placement.slots.chunks_exact(placement.tokens);
        for (head, slots) in self.heads.iter_mut().zip(slots_of_heads) {
            for (token, slot) in slots.iter().enumerate() {
                let position = self.tokens + token;
                if position < self.shape.slots {
                    assert_eq!(*slot as usize, position, "a token of a cache that is not full");
                } else {
                    head.push(*slot);
                }
            }
        }
        self.tokens += placement.tokens;
    }
}

impl PackedSlots {
    fn new(limit: usize) -> Self {
        let bits = (limit.saturating_sub(1)).checked_ilog2().map_or(1, |bits| bits + 1);
        PackedSlots { bits, len: 0, words: Vec::new() }
    }

    /// Numbers do not cross words: reading one is one shift.
    fn per_word(&self) -> usize {
        (u64::BITS / self.bits) as usize
    }

    fn push(&mut self, slot: u32) {
        let (word, at) = (self.len / self.per_word(), self.len % self.per_word());
        self.words.resize(word + 1, 0);
        self.words[word] |= u64::from(slot) << (at as u32 * self.bits);
        self.len += 1;
    }

    fn get(&self, index: usize) -> u32 {
        let (word, at) = (index / self.per_word(), index % self.per_word());
        let mask = (1u64 << self.bits) - 1;
        (self.words[word] >> (at as u32 * self.bits) & mask) as u32
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], PolicyError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(bytes)
            .ok_or_else(|| damaged(&format!("{bytes} bytes are missing")))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<usize, PolicyError> {
        Ok(self.numbers(1)?[0])
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<usize>, PolicyError> {
        let words = self.take(count.saturating_mul(4))?.chunks_exact(4);
        let number = |word: &[u8]| u32::from_le_bytes(word.try_into().expect("four bytes"));
        Ok(words.map(|word| number(word) as usize).collect())
    }

    fn layer(
        &mut self,
        kv_heads: usize,
        slots: usize,
        tokens: usize,
    ) -> Result<LayerLog, PolicyError> {
        if KV_HEADS_MOST < kv_heads {
            return Err(damaged(&format!("{kv_heads} heads")));
        }
        let shape = TableShape { kv_heads, slots };
        let len = tokens.saturating_sub(slots);
        let mut heads = Vec::new();
        for _ in 0..kv_heads {
            let mut head = PackedSlots::new(slots);
            let words = self.take(len.div_ceil(head.per_word()) * 8)?.chunks_exact(8);
            let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
            head.words = words.map(word).collect();
            head.len = len;
            if (0..len).any(|i| slots <= head.get(i) as usize) {
                return Err(damaged(&format!("a slot beyond {slots}")));
            }
            heads.push(head);
        }
        Ok(LayerLog { shape, tokens, heads })
    }
}

fn damaged(why: &str) -> PolicyError {
    PolicyError::DamagedLog { why: why.to_owned() }
}
