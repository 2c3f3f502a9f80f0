//! A panel of quantised weights as bf16, in the order of the matrix units.
//!
//! Of each block sixteen vectors, which hold two columns of sixteen rows each: as
//! [`PackedMatrix`](super::PackedMatrix) keeps weights that are not quantised.

use half::bf16;

use super::format_kernel::FormatKernel;
use super::int16_products::AHEAD_BYTES;
use super::panel_format::{OPERANDS, PanelFormat, PanelPointer};
use super::row_block::RowBlock;
use crate::cpu::lanes::{Lanes, PanelLanes};
use crate::linear::weight_format::WeightFormat;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

/// Numbers of a block.
const BLOCK_NUMBERS: usize = PANEL_ROWS * BLOCK_COLUMNS;

pub(crate) struct UnpackPanel<'a> {
    pub(crate) format: WeightFormat,
    pub(crate) panel: &'a [u8],
    /// Whole blocks.
    pub(crate) out: &'a mut [bf16],
}

impl FormatKernel for UnpackPanel<'_> {
    fn format(&self) -> WeightFormat {
        self.format
    }

    fn plain<F: PanelFormat>(self) {
        for (block, out) in self.out.chunks_exact_mut(BLOCK_NUMBERS).enumerate() {
            for lane in 0..PANEL_ROWS {
                let weights = RowBlock::unpack::<F>(self.panel, block, lane).weights::<F>();
                for (i, weight) in weights.into_iter().enumerate() {
                    let at = (i / 2 * PANEL_ROWS + lane) * 2 + i % 2;
                    out[at] = bf16::from_f32(weight);
                }
            }
        }
    }

    #[inline(always)]
    fn vectors<F: PanelFormat, S: PanelLanes>(self, lanes: S) {
        let UnpackPanel { panel, out, .. } = self;
        let blocks = out.len() / BLOCK_NUMBERS;
        assert_eq!(panel.len(), F::panel_bytes(blocks), "bytes of a panel");
        for lane in (0..PANEL_ROWS).step_by(<S::Floats as Lanes>::COUNT) {
            let panel = PanelPointer { bytes: panel.as_ptr(), lane };
            for (block, out) in out.chunks_exact_mut(BLOCK_NUMBERS).enumerate() {
                // SAFETY: the panel has so many blocks, and `out` a whole one.
                unsafe { unpack::<S, F>(lanes, panel, block, out) };
            }
        }
    }
}

/// # Safety
/// The panel is one of `F` and has the block; `out` takes one.
#[inline(always)]
unsafe fn unpack<S: PanelLanes, F: PanelFormat>(
    lanes: S,
    panel: PanelPointer,
    block: usize,
    out: &mut [bf16],
) {
    // What will be read next is asked for meanwhile.
    let ahead = panel.bytes.wrapping_add(F::block_at(block) + AHEAD_BYTES);
    lanes.floats().prefetch_bytes(ahead, F::BLOCK_BYTES);
    let fours = OPERANDS / 4 / F::GROUPS;
    for group in 0..F::GROUPS {
        // SAFETY: the caller's contract.
        let [scale, least] = unsafe { panel.scale_and_least::<S, F>(lanes, block, group) };
        for four in group * fours..(group + 1) * fours {
            // SAFETY: the caller's contract.
            let pairs = unsafe { panel.quant_pairs::<S, F>(lanes, block, four) };
            for (i, [low, high]) in pairs.into_iter().enumerate() {
                let low = weights::<S, F>(lanes, low, scale, least);
                let high = weights::<S, F>(lanes, high, scale, least);
                // SAFETY: each pair of columns has its own 64 bytes of `out`.
                unsafe {
                    let at = ((4 * four + i) * PANEL_ROWS + panel.lane) * 2;
                    lanes.store_ints(lanes.join_bf16(low, high), out.as_mut_ptr().add(at).cast());
                }
            }
        }
    }
}

/// `scale q + least`, with each operation rounded, so that every level gives the same weights.
#[inline(always)]
fn weights<S: PanelLanes, F: PanelFormat>(
    lanes: S,
    quants: <S::Floats as Lanes>::Vector,
    scale: <S::Floats as Lanes>::Vector,
    least: <S::Floats as Lanes>::Vector,
) -> <S::Floats as Lanes>::Vector {
    let base = lanes.floats();
    match F::HAS_LEAST {
        // The product of an f16 and a byte needs no rounding.
        true if !F::LAYERED => base.mul_add(scale, quants, least),
        true => base.add(base.mul(scale, quants), least),
        false => base.mul(scale, quants),
    }
}
