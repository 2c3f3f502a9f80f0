//! Rows of tokens that are kept between cells, as they are or quantised.
//!
//! A row is a run of blocks of equal width, each with its own scale and zero point where it is
//! quantised. Layer inputs are two blocks a token, keys and values one for each kv head.
//!
//! They lie where the ops compute, or on the host: in memory that a GPU copies from and to, and
//! quantised ones always.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use terrace_cache::policy::SlotFormat;
use terrace_device::cuda::PooledPinned;
use terrace_device::{DType, View, WorkerPool};
use terrace_kernels::{Quantiser, TuneOps};

use crate::error::Error;
use crate::tensor::Tensor;

pub(crate) struct StoredRows {
    seqs: usize,
    tokens: usize,
    blocks: usize,
    block: usize,
    /// What rows are read as.
    dtype: DType,
    bytes: Stored,
}

enum Stored {
    Plain(Tensor),
    OnHost(PooledPinned),
    Quantised(Quantiser, Vec<u8>),
}

/// What rows are, and how they are kept.
#[derive(Clone, Copy)]
pub(crate) struct RowsKept {
    pub seqs: usize,
    pub tokens: usize,
    pub blocks: usize,
    /// Numbers of a block.
    pub block: usize,
    pub dtype: DType,
    pub format: SlotFormat,
    pub place: KeptAt,
    /// Which argument the format was chosen by.
    pub argument: &'static str,
}

/// Where rows are that are not quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptAt {
    Device,
    /// The device does not grow with the text's length.
    Host,
}

/// Blocks that a thread packs or unpacks at a time.
const TASK_BLOCKS: usize = 256;

impl StoredRows {
    pub fn new(ops: &TuneOps<'_>, rows: RowsKept) -> Result<Self, Error> {
        let RowsKept { seqs, tokens, blocks, block, dtype, format, place, argument } = rows;
        let host_memory = ops.host_memory().filter(|_| place == KeptAt::Host);
        let bytes = match (format.quantiser(), host_memory) {
            (None, Some(memory)) => {
                let bytes = seqs * tokens * blocks * block * dtype.bytes();
                Stored::OnHost(memory.take(bytes)?)
            }
            (None, None) => {
                let shape = [seqs * tokens, blocks * block];
                Stored::Plain(Tensor::zeros_of(ops, "checkpoints", dtype, shape)?)
            }
            (Some(quantiser), _) if quantiser.fits(block) => {
                let bytes = seqs * tokens * blocks * quantiser.row_bytes(block);
                Stored::Quantised(quantiser, vec![0; bytes])
            }
            (Some(_), _) => {
                let wanted = format!("default: blocks of {block} numbers cannot be packed so");
                return Err(Error::BadArgument { argument, value: format.name().into(), wanted });
            }
        };
        Ok(StoredRows { seqs, tokens, blocks, block, dtype, bytes })
    }

    pub fn width(&self) -> usize {
        self.blocks * self.block
    }

    /// rows: `[seqs * tokens.len(), width]`
    pub fn write(
        &mut self,
        ops: &TuneOps<'_>,
        tokens: &Range<usize>,
        rows: &Tensor,
    ) -> Result<(), Error> {
        self.write_from(ops, tokens, rows, 0)
    }

    /// rows: `[seqs * row_tokens, width]`, of which those from `first` on are written for each
    /// sequence
    pub fn write_from(
        &mut self,
        ops: &TuneOps<'_>,
        tokens: &Range<usize>,
        rows: &Tensor,
        first: usize,
    ) -> Result<(), Error> {
        let (width, block) = (self.width(), self.block);
        let [all, columns] = rows.view().dims();
        let row_tokens = all / self.seqs;
        assert_eq!([columns, all % self.seqs], [width, 0], "rows of {tokens:?}");
        assert!(first + tokens.len() <= row_tokens && tokens.end <= self.tokens, "{tokens:?}");
        let places =
            (0..self.seqs).map(|seq| (seq * row_tokens + first, seq * self.tokens + tokens.start));
        match &mut self.bytes {
            Stored::Plain(kept) => {
                for (from, to) in places {
                    let from = rows.view().rows(from..from + tokens.len());
                    ops.copy(from, kept.view_mut().rows(to..to + tokens.len()));
                }
            }
            Stored::OnHost(kept) => {
                let row_bytes = width * self.dtype.bytes();
                for (from, to) in places {
                    let from = rows.view().rows(from..from + tokens.len());
                    kept.copy_from(to * row_bytes, from);
                }
            }
            Stored::Quantised(quantiser, bytes) => {
                let (numbers, size) = (rows.numbers(ops)?, quantiser.row_bytes(block));
                for (from, to) in places {
                    let count = tokens.len() * self.blocks;
                    let from = &numbers[from * width..][..count * block];
                    let to = &mut bytes[to * self.blocks * size..][..count * size];
                    let tasks = from.chunks(TASK_BLOCKS * block);
                    let tasks = tasks.zip(to.chunks_mut(TASK_BLOCKS * size));
                    for_each(ops.workers(), tasks, |(from, to)| {
                        let blocks = from.chunks_exact(block).zip(to.chunks_exact_mut(size));
                        blocks.for_each(|(block, bytes)| quantiser.encode(block, bytes));
                    });
                }
            }
        }
        Ok(())
    }

    /// `[seqs * tokens.len(), width]`
    pub fn read(&self, ops: &TuneOps<'_>, tokens: &Range<usize>) -> Result<Tensor, Error> {
        assert!(tokens.end <= self.tokens, "{tokens:?} of {}", self.tokens);
        let (count, shape) = (tokens.len(), [self.seqs * tokens.len(), self.width()]);
        match &self.bytes {
            Stored::Plain(kept) => {
                let mut rows = Tensor::unset_of(ops, "rows of a cell", self.dtype, shape)?;
                for seq in 0..self.seqs {
                    let from = seq * self.tokens + tokens.start;
                    let to = rows.view_mut().rows(seq * count..(seq + 1) * count);
                    ops.copy(kept.view().rows(from..from + count), to);
                }
                Ok(rows)
            }
            Stored::OnHost(kept) => {
                let mut rows = Tensor::unset_of(ops, "rows of a cell", self.dtype, shape)?;
                let row_bytes = self.width() * self.dtype.bytes();
                for seq in 0..self.seqs {
                    let from = seq * self.tokens + tokens.start;
                    let to = rows.view_mut().rows(seq * count..(seq + 1) * count);
                    kept.copy_to(from * row_bytes, &to);
                }
                Ok(rows)
            }
            Stored::Quantised(..) => {
                let mut numbers = vec![0.0; shape[0] * shape[1]];
                let tasks = numbers.chunks_mut(TASK_BLOCKS * self.block).enumerate();
                for_each(ops.workers(), tasks, |(task, out)| {
                    for (i, out) in out.chunks_exact_mut(self.block).enumerate() {
                        let i = task * TASK_BLOCKS + i;
                        let (row, block) = (i / self.blocks, i % self.blocks);
                        self.read_block(row / count, tokens.start + row % count, block, out);
                    }
                });
                match self.dtype {
                    DType::F32 => Tensor::of(ops, "rows of a cell", &numbers, shape),
                    _ => Tensor::act_of(ops, "rows of a cell", &numbers, shape),
                }
            }
        }
    }

    /// Slots that hold tokens at these positions, i32 `[seqs * blocks, slots]`, -1 for none; a
    /// block is a head's · `[seqs * blocks, slots, block]`
    pub fn gather(&self, ops: &TuneOps<'_>, positions: &Gathered<'_>) -> Result<Tensor, Error> {
        let shape = [self.seqs * self.blocks, positions.slots, self.block];
        let rows = [self.seqs * self.tokens, self.width()];
        let kept = match &self.bytes {
            Stored::Plain(kept) => Some(kept.view()),
            // A GPU reads over the bus what it needs.
            Stored::OnHost(kept) => Some(kept.device_view(self.dtype, rows)),
            Stored::Quantised(..) => None,
        };
        if let Some(kept) = kept {
            let mut slots = Tensor::unset_of(ops, "slots", self.dtype, shape)?;
            ops.gather_slots(kept, positions.placed, slots.view_mut());
            return Ok(slots);
        }
        let mut numbers = vec![0.0; shape.iter().product()];
        let held = positions.on_host.chunks(TASK_BLOCKS);
        let tasks = held.zip(numbers.chunks_mut(TASK_BLOCKS * self.block)).enumerate();
        for_each(ops.workers(), tasks, |(task, (held, out))| {
            let rows = held.iter().zip(out.chunks_exact_mut(self.block));
            for (i, (position, out)) in rows.enumerate() {
                let Ok(position) = usize::try_from(*position) else { continue };
                let row = (task * TASK_BLOCKS + i) / positions.slots;
                self.read_block(row / self.blocks, position, row % self.blocks, out);
            }
        });
        Tensor::act_of(ops, "slots", &numbers, shape)
    }

    /// out: `[block]`
    fn read_block(&self, seq: usize, token: usize, block: usize, out: &mut [f32]) {
        assert!(seq < self.seqs && token < self.tokens && block < self.blocks, "a stored block");
        let at = (seq * self.tokens + token) * self.blocks + block;
        let Stored::Quantised(quantiser, bytes) = &self.bytes else {
            panic!("rows as they are have no blocks of their own");
        };
        let size = quantiser.row_bytes(self.block);
        quantiser.decode(&bytes[at * size..(at + 1) * size], out);
    }
}

/// Calls `f` with each item, on all threads.
fn for_each<I: Iterator + Send>(workers: &WorkerPool, items: I, f: impl Fn(I::Item) + Sync) {
    let items = Mutex::new(items);
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    workers.run(workers.threads(), &|_, _| {
        while let Some(item) = next() {
            f(item);
        }
    });
}

/// Which tokens slots hold, i32 `[heads of all sequences, slots]`.
pub(crate) struct Gathered<'a> {
    pub slots: usize,
    pub on_host: &'a [i32],
    /// The same where the ops compute.
    pub placed: View<'a>,
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
            let kept = RowsKept {
                seqs: 2,
                tokens: 3,
                blocks: 2,
                block: 4,
                dtype: DType::F32,
                format,
                place: KeptAt::Device,
                argument: "grad.layercp_qname",
            };
            let mut rows = StoredRows::new(&ops, kept).unwrap();
            let numbers: Vec<f32> = (0..2 * 2 * 8).map(|i| 10.0 + (i as f32).sin()).collect();
            let given = Tensor::of(&ops, "rows", &numbers, [4, 8]).unwrap();
            rows.write(&ops, &(1..3), &given).unwrap();
            let read = rows.read(&ops, &(1..3)).unwrap();
            for (got, want) in read.numbers(&ops).unwrap().iter().zip(&numbers) {
                assert!((got - want).abs() <= slack, "{name}: {got} is not {want}");
            }
        }
    }
}
