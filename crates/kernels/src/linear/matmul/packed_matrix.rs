//! Quantised weights in the order in which a GPU's lanes take them.
//!
//! The order is that of `packed.cuh`: panels of 16 rows, in a panel blocks of 32 columns, in a
//! block integers and then scales, each lane's together. The integers are those of the file; scales
//! made of two factors there (Q3_K, Q4_K, Q6_K) are one f16 here.

use half::f16;
use terrace_device::{SharedRows, ViewMut, WorkerPool};

use super::matrix_kind::{BLOCK_COLUMNS, PANEL_ROWS, Packing};
use crate::linear::unpack::reference::{IQ4_NL_NUMBERS, five_bits};
use crate::linear::unpack::super_block::{SuperBlock, q4_k_scale_and_least};
use crate::linear::weight_format::WeightFormat;

/// Where the scales of a block start.
const fn scales_at(packing: Packing) -> usize {
    match packing {
        Packing::S4 | Packing::Q4 => 256,
        Packing::Q6 => 384,
        Packing::Q8 => 512,
    }
}

/// A row of weights as a file has it.
#[derive(Clone, Copy)]
pub(crate) struct FormatRow<'a> {
    pub format: WeightFormat,
    pub bytes: &'a [u8],
}

/// Packs panels; `row(i)` gives the i-th row, `out` holds `matrix_bytes(rows, columns)`.
pub(crate) fn pack<'a>(
    packing: Packing,
    rows: usize,
    columns: usize,
    row: impl Fn(usize) -> FormatRow<'a> + Sync,
    workers: &WorkerPool,
    out: &mut [u8],
) {
    let panels = rows.div_ceil(PANEL_ROWS);
    let panel_bytes = packing.matrix_bytes(PANEL_ROWS, columns);
    let block_bytes = packing.block_bytes();
    out.fill(0);
    let mut out = ViewMut::of(out, [panels, panel_bytes]);
    let out = SharedRows::<u8>::new(&mut out);
    workers.run(panels, &|_, panel| {
        // SAFETY: each panel is one task's.
        let bytes = unsafe { out.row_mut(panel) };
        let first = panel * PANEL_ROWS;
        for in_panel in 0..PANEL_ROWS.min(rows - first) {
            let row = row(first + in_panel);
            for (index, block) in bytes.chunks_exact_mut(block_bytes).enumerate() {
                put(packing, block, in_panel, &Group::read(row, index));
            }
        }
    });
}

/// 32 weights of a row.
struct Group {
    /// Unsigned as stored; of Q8 the bits of a signed byte.
    q: [u8; BLOCK_COLUMNS],
    /// Of the first and the second 16.
    scales: [f32; 2],
    least: f32,
}

impl Group {
    fn read(row: FormatRow<'_>, index: usize) -> Self {
        let weights = row.format.block_weights();
        let first = index * BLOCK_COLUMNS;
        let block = &row.bytes[first / weights * row.format.block_bytes()..];
        let sub = first % weights / BLOCK_COLUMNS;
        match row.format {
            WeightFormat::Q4_0 => {
                Group { q: halves(&block[2..18]), scales: [f16_at(block, 0); 2], least: 0.0 }
            }
            WeightFormat::Q4_1 => Group {
                q: halves(&block[4..20]),
                scales: [f16_at(block, 0); 2],
                least: f16_at(block, 2),
            },
            WeightFormat::Iq4Nl => {
                let q = halves(&block[2..18]).map(|q| IQ4_NL_NUMBERS[usize::from(q)] as u8);
                Group { q, scales: [f16_at(block, 0); 2], least: 0.0 }
            }
            WeightFormat::Q5_0 => {
                let q = five_bits(&block[2..22]).map(|q| q.wrapping_sub(16));
                Group { q, scales: [f16_at(block, 0); 2], least: 0.0 }
            }
            WeightFormat::Q3K => q3_k(block, sub),
            WeightFormat::Q4K => q4_k(block, sub),
            WeightFormat::Q6K => q6_k(block, sub),
            WeightFormat::Q8_0 => {
                let q = block[2..34].try_into().expect("32 bytes");
                Group { q, scales: [f16_at(block, 0); 2], least: 0.0 }
            }
            other => panic!("{} has no packed form", other.name()),
        }
    }
}

/// The low halves of 16 bytes, then the high ones.
fn halves(bytes: &[u8]) -> [u8; BLOCK_COLUMNS] {
    std::array::from_fn(|i| if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 })
}

fn q3_k(block: &[u8], sub: usize) -> Group {
    let block = SuperBlock::q3_k(block[..110].try_into().expect("a block"));
    Group {
        q: std::array::from_fn(|i| (block.quants[sub * BLOCK_COLUMNS + i] + 32) as u8),
        scales: [block.scales[2 * sub], block.scales[2 * sub + 1]],
        least: 0.0,
    }
}

fn q4_k(block: &[u8], sub: usize) -> Group {
    let (scale, least) = (f16_at(block, 0), f16_at(block, 2));
    let (sub_scale, sub_least) = q4_k_scale_and_least(&block[4..16], sub);
    let pairs = &block[16 + sub / 2 * 32..];
    Group {
        q: std::array::from_fn(
            |i| if sub.is_multiple_of(2) { pairs[i] & 15 } else { pairs[i] >> 4 },
        ),
        scales: [scale * f32::from(sub_scale); 2],
        least: -least * f32::from(sub_least),
    }
}

fn q6_k(block: &[u8], sub: usize) -> Group {
    let (half, run) = (sub / 4, sub % 4);
    let low = &block[half * 64 + run % 2 * 32..];
    let high = &block[128 + half * 32..];
    let scale = f16_at(block, 208);
    let sub_scale = |i: usize| f32::from(block[192 + half * 8 + run * 2 + i] as i8);
    Group {
        q: std::array::from_fn(|i| low[i] >> (run / 2 * 4) & 15 | (high[i] >> (run * 2) & 3) << 4),
        scales: [scale * sub_scale(0), scale * sub_scale(1)],
        least: 0.0,
    }
}

/// Puts one row's weights where the lanes look for them; `block` was zero.
fn put(packing: Packing, block: &mut [u8], row: usize, group: &Group) {
    let scales_at = scales_at(packing);
    let (in_half, side) = (row % 8, row / 8);
    for (column, &q) in group.q.iter().enumerate() {
        let lane = in_half * 4 + column % 8 / 2;
        let (step, register) = (column / 16, side + column / 8 % 2 * 2);
        let shift = register * 4 + column % 2 * 16;
        match packing {
            Packing::S4 | Packing::Q4 => {
                or_word(block, (lane * 2 + step) * 4, u32::from(q) << shift);
            }
            Packing::Q6 => {
                or_word(block, (lane * 2 + step) * 4, u32::from(q & 15) << shift);
                let shift = step * 8 + register * 2 + column % 2 * 16;
                or_word(block, 256 + lane * 4, u32::from(q >> 4) << shift);
            }
            Packing::Q8 => {
                let word = lane * 4 + step * 2 + register / 2;
                block[word * 4 + register % 2 + column % 2 * 2] = q;
            }
        }
    }
    let place = in_half * 2 + side;
    let mut scale = |at: usize, number: f32| {
        let at = scales_at + 2 * at;
        block[at..at + 2].copy_from_slice(&f16::from_f32(number).to_le_bytes());
    };
    match packing {
        Packing::Q4 => {
            scale(2 * place, group.scales[0]);
            scale(2 * place + 1, group.least);
        }
        Packing::Q6 => {
            scale(2 * place, group.scales[0]);
            scale(2 * place + 1, group.scales[1]);
        }
        Packing::S4 | Packing::Q8 => scale(place, group.scales[0]),
    }
}

fn or_word(block: &mut [u8], at: usize, bits: u32) {
    for (byte, bits) in block[at..at + 4].iter_mut().zip(bits.to_le_bytes()) {
        *byte |= bits;
    }
}

fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

#[cfg(test)]
mod tests;
