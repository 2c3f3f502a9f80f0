//! Products of bf16 rows with two strips of weights, on the matrix units.
//!
//! An output is the sum over blocks of 32 columns in order, each added as the processor defines
//! it. Two tiles of rows and two of weights are loaded for four products, so that loading keeps
//! pace: 64 cycles of products for 64 cache lines.

use std::arch::asm;

use half::bf16;

use super::bf16_rows::TILE_NUMBERS;
use super::finish::PanelSums;
use crate::lanes::Tiles;

impl PanelSums {
    /// tiles: those of the first sixteen rows, and of sixteen more if there are any · strips: as
    /// many blocks as there are tiles in sixteen rows
    #[inline]
    pub(super) fn multiply(&mut self, _: Tiles, tiles: [&[bf16]; 2], strips: [&[bf16]; 2]) {
        let blocks = tiles[0].len() / TILE_NUMBERS;
        assert!(0 < blocks, "rows of no columns");
        let fits = |strip: &[bf16]| strip.len() == blocks * TILE_NUMBERS;
        assert!(strips.into_iter().all(fits), "blocks of strips");
        if tiles[1].is_empty() {
            // SAFETY: `Tiles` proves that they are configured; all slices were checked.
            unsafe { self.multiply_16(blocks, tiles[0], strips) }
        } else {
            assert!(fits(tiles[1]), "tiles of rows");
            // SAFETY: as above.
            unsafe { self.multiply_32(blocks, tiles, strips) }
        }
    }

    /// # Safety
    /// This thread's tiles are configured, and each slice has so many blocks.
    unsafe fn multiply_32(&mut self, blocks: usize, x: [&[bf16]; 2], w: [&[bf16]; 2]) {
        // SAFETY: the loop reads one tile of each slice for each block; the sums go to the four
        // quarters of the panel.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{x0} + {line}]",
                "tileloadd tmm6, [{w0} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w1} + {line}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{x1} + {line}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {x0}, 1024",
                "add {x1}, 1024",
                "add {w0}, 1024",
                "add {w1}, 1024",
                "dec {blocks}",
                "jnz 2b",
                "tilestored [{out} + {row}], tmm0",
                "tilestored [{out} + {row} + 64], tmm1",
                "tilestored [{out} + {row} + 2048], tmm2",
                "tilestored [{out} + {row} + 2112], tmm3",
                x0 = inout(reg) x[0].as_ptr() => _,
                x1 = inout(reg) x[1].as_ptr() => _,
                w0 = inout(reg) w[0].as_ptr() => _,
                w1 = inout(reg) w[1].as_ptr() => _,
                blocks = inout(reg) blocks => _,
                line = in(reg) 64usize,
                row = in(reg) 128usize,
                out = in(reg) self.rows.as_mut_ptr(),
                options(nostack),
            );
        }
    }

    /// # Safety
    /// This thread's tiles are configured, and each slice has so many blocks.
    unsafe fn multiply_16(&mut self, blocks: usize, x: &[bf16], w: [&[bf16]; 2]) {
        // SAFETY: as in `multiply_32`, without the second sixteen rows.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "2:",
                "tileloadd tmm4, [{x0} + {line}]",
                "tileloadd tmm6, [{w0} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w1} + {line}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {x0}, 1024",
                "add {w0}, 1024",
                "add {w1}, 1024",
                "dec {blocks}",
                "jnz 2b",
                "tilestored [{out} + {row}], tmm0",
                "tilestored [{out} + {row} + 64], tmm1",
                x0 = inout(reg) x.as_ptr() => _,
                w0 = inout(reg) w[0].as_ptr() => _,
                w1 = inout(reg) w[1].as_ptr() => _,
                blocks = inout(reg) blocks => _,
                line = in(reg) 64usize,
                row = in(reg) 128usize,
                out = in(reg) self.rows.as_mut_ptr(),
                options(nostack),
            );
        }
    }
}
