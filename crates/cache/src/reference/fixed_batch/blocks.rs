//! Blocks of a quantiser over a batch, as the original lays them out.
//!
//! A block is the numbers of one slot and one head where that is long enough. Else asymmetric ones
//! take all heads of a row's slot, and those with a table of values take powers of two of all heads
//! and rows of a slot.

use terrace_kernels::Quantiser;

#[derive(Clone, Debug)]
pub struct FixedBlocks {
    quantiser: Option<Quantiser>,
    rows: usize,
    kv_heads: usize,
    dim: usize,
    span: BlockSpan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockSpan {
    Head,
    /// All heads of one row.
    Heads,
    /// So many numbers of one slot, heads before rows.
    Slot(usize),
}

/// Shortest block of an asymmetric quantiser.
const ASYMMETRIC_LEAST: usize = 16;
/// Lengths of blocks that bitsandbytes takes.
const TABLE_BLOCKS: [usize; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Steps from -1 to 1 to which it rounds a number before it looks up an 8-bit code.
const TABLE_STEPS: f32 = 65535.0;

impl FixedBlocks {
    pub fn new(quantiser: Option<Quantiser>, rows: usize, kv_heads: usize, dim: usize) -> Self {
        let too_short = match quantiser {
            Some(Quantiser::Asymmetric8 | Quantiser::Asymmetric4) => dim < ASYMMETRIC_LEAST,
            Some(Quantiser::Dynamic8 | Quantiser::Float4) => !TABLE_BLOCKS.contains(&dim),
            Some(Quantiser::Fp8) | None => false,
        };
        let blocks = FixedBlocks { quantiser, rows, kv_heads, dim, span: BlockSpan::Head };
        if too_short { blocks.over_heads() } else { blocks }
    }

    /// With blocks over all heads of a row's slot or over all rows too, whatever a head's length.
    pub fn over_heads(self) -> Self {
        let numbers = self.rows * self.kv_heads * self.dim;
        let fits = |block: &&usize| numbers.is_multiple_of(**block);
        let span = match self.quantiser {
            Some(Quantiser::Dynamic8 | Quantiser::Float4) => {
                let block = TABLE_BLOCKS.iter().rev().find(fits);
                block.map_or(BlockSpan::Head, |block| BlockSpan::Slot(*block))
            }
            _ => BlockSpan::Heads,
        };
        FixedBlocks { span, ..self }
    }

    /// Whether a block holds numbers of several heads.
    pub(crate) fn spans_heads(&self) -> bool {
        self.quantiser.is_some() && self.span != BlockSpan::Head
    }

    /// What `[rows][kv_heads][slots][dim]` reads as once it is stored.
    pub fn pass(&self, numbers: &mut [f32]) {
        let Some(quantiser) = self.quantiser else { return };
        let slots = numbers.len() / (self.rows * self.kv_heads * self.dim);
        for members in self.members(slots) {
            let mut joined: Vec<f32> =
                members.iter().flat_map(|at| &numbers[*at..*at + self.dim]).copied().collect();
            let block = match self.span {
                BlockSpan::Slot(block) => block,
                BlockSpan::Head | BlockSpan::Heads => joined.len(),
            };
            for block in joined.chunks_exact_mut(block) {
                if quantiser == Quantiser::Dynamic8 {
                    round_to_table(block);
                }
                quantiser.pass(block);
            }
            for (at, row) in members.iter().zip(joined.chunks_exact(self.dim)) {
                numbers[*at..*at + self.dim].copy_from_slice(row);
            }
        }
    }

    /// L2 norm of what storing changes, `[rows][kv_heads][slots]`.
    pub fn errors(&self, numbers: &[f32]) -> Vec<f32> {
        let mut stored = numbers.to_vec();
        self.pass(&mut stored);
        let rows = numbers.chunks_exact(self.dim).zip(stored.chunks_exact(self.dim));
        let error = |(row, stored): (&[f32], &[f32])| {
            let squares = row.iter().zip(stored).map(|(a, b)| f64::from(a - b).powi(2));
            squares.sum::<f64>().sqrt() as f32
        };
        rows.map(error).collect()
    }

    /// Where the rows of `dim` numbers start that are quantised together, in their order.
    fn members(&self, slots: usize) -> Vec<Vec<usize>> {
        let start = |row: usize, head: usize, slot: usize| {
            ((row * self.kv_heads + head) * slots + slot) * self.dim
        };
        let (rows, heads) = (0..self.rows, 0..self.kv_heads);
        let slots = 0..slots;
        match self.span {
            BlockSpan::Head => {
                let all = self.rows * self.kv_heads * slots.len();
                (0..all).map(|row| vec![row * self.dim]).collect()
            }
            BlockSpan::Heads => rows
                .flat_map(|row| slots.clone().map(move |slot| (row, slot)))
                .map(|(row, slot)| heads.clone().map(|head| start(row, head, slot)).collect())
                .collect(),
            BlockSpan::Slot(_) => slots
                .map(|slot| {
                    let of_head = |head| rows.clone().map(move |row| (row, head));
                    heads.clone().flat_map(of_head).map(|(r, h)| start(r, h, slot)).collect()
                })
                .collect(),
        }
    }
}

/// Numbers as the original's search sees them.
fn round_to_table(block: &mut [f32]) {
    let most = block.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    if most == 0.0 {
        return;
    }
    for x in block {
        let step = ((*x / most + 1.0) * 0.5 * TABLE_STEPS + 0.5).floor();
        *x = (step / TABLE_STEPS * 2.0 - 1.0) * most;
    }
}
