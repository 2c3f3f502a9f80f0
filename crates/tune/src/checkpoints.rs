//! Rows of tokens that are kept between cells, as they are or quantised.
//!
//! A row is a run of blocks of equal width, each with its own scale and zero point where it is
//! quantised. Layer inputs are two blocks a token, keys and values one for each kv head.

use std::ops::Range;

use terrace_cache::policy::SlotFormat;
use terrace_kernels::{Quantiser, TuneOps};

use crate::error::Error;
use crate::tensor::Tensor;

pub(crate) struct StoredRows {
    seqs: usize,
    tokens: usize,
    blocks: usize,
    block: usize,
    bytes: Stored,
}

enum Stored {
    Plain(Tensor),
    Quantised(Quantiser, Vec<u8>),
}

impl StoredRows {
    /// Rows of `blocks` times `block` numbers of each token of each sequence.
    pub fn new(
        ops: &TuneOps<'_>,
        [seqs, tokens]: [usize; 2],
        [blocks, block]: [usize; 2],
        format: SlotFormat,
        argument: &'static str,
    ) -> Result<Self, Error> {
        let bytes = match format.quantiser() {
            None => {
                Stored::Plain(Tensor::zeros(ops, "checkpoints", [seqs * tokens, blocks * block])?)
            }
            Some(quantiser) if quantiser.fits(block) => {
                let bytes = seqs * tokens * blocks * quantiser.row_bytes(block);
                Stored::Quantised(quantiser, vec![0; bytes])
            }
            Some(_) => {
                let wanted = format!("default: blocks of {block} numbers cannot be packed so");
                return Err(Error::BadArgument { argument, value: format.name().into(), wanted });
            }
        };
        Ok(StoredRows { seqs, tokens, blocks, block, bytes })
    }

    pub fn width(&self) -> usize {
        self.blocks * self.block
    }

    /// rows: `[seqs * tokens.len(), width]`
    pub fn write(&mut self, tokens: &Range<usize>, rows: &[f32]) {
        let (width, block) = (self.width(), self.block);
        assert_eq!(rows.len(), self.seqs * tokens.len() * width, "rows of {tokens:?}");
        for (i, row) in rows.chunks_exact(width).enumerate() {
            let (seq, token) = (i / tokens.len(), tokens.start + i % tokens.len());
            let at = seq * self.tokens + token;
            match &mut self.bytes {
                Stored::Plain(numbers) => {
                    numbers.numbers_mut::<f32>()[at * width..(at + 1) * width].copy_from_slice(row);
                }
                Stored::Quantised(quantiser, bytes) => {
                    let bytes = bytes.chunks_exact_mut(quantiser.row_bytes(block));
                    let bytes = bytes.skip(at * self.blocks);
                    let blocks = row.chunks_exact(block).zip(bytes);
                    blocks.for_each(|(block, bytes)| quantiser.encode(block, bytes));
                }
            }
        }
    }

    /// `[seqs * tokens.len(), width]`
    pub fn read(&self, ops: &TuneOps<'_>, tokens: &Range<usize>) -> Result<Tensor, Error> {
        let mut rows =
            Tensor::unset(ops, "rows of a cell", [self.seqs * tokens.len(), self.width()])?;
        let out = rows.numbers_mut::<f32>().chunks_exact_mut(self.block);
        for (i, out) in out.enumerate() {
            let (row, block) = (i / self.blocks, i % self.blocks);
            self.read_block(row / tokens.len(), tokens.start + row % tokens.len(), block, out);
        }
        Ok(rows)
    }

    /// out: `[block]`
    pub fn read_block(&self, seq: usize, token: usize, block: usize, out: &mut [f32]) {
        assert!(seq < self.seqs && token < self.tokens && block < self.blocks, "a stored block");
        let at = (seq * self.tokens + token) * self.blocks + block;
        match &self.bytes {
            Stored::Plain(numbers) => {
                let numbers = numbers.numbers::<f32>();
                out.copy_from_slice(&numbers[at * self.block..(at + 1) * self.block]);
            }
            Stored::Quantised(quantiser, bytes) => {
                let size = quantiser.row_bytes(self.block);
                quantiser.decode(&bytes[at * size..(at + 1) * size], out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact_ops::exact_ops;

    /// Blocks whose numbers are all far from zero have zero points beyond a byte, which some
    /// programs cut off.
    #[test]
    fn zero_points_are_kept_whole() {
        for (name, slack) in
            [("default", 0.0), ("torch-quantized8", 0.01), ("torch-quantized4", 0.1)]
        {
            let format = SlotFormat::named(name).expect("a known format");
            let ops = exact_ops();
            let ops = ops.tuning().unwrap();
            let mut rows =
                StoredRows::new(&ops, [2, 3], [2, 4], format, "grad.layercp_qname").unwrap();
            let numbers: Vec<f32> = (0..2 * 2 * 8).map(|i| 10.0 + (i as f32).sin()).collect();
            rows.write(&(1..3), &numbers);
            let read = rows.read(&ops, &(1..3)).unwrap();
            for (got, want) in read.numbers::<f32>().iter().zip(&numbers) {
                assert!((got - want).abs() <= slack, "{name}: {got} is not {want}");
            }
        }
    }
}
