//! The plain version: what every way does, and how the CPU does it.

use std::ops::Range;

use terrace_device::ViewMut;

use super::page_moves::PageMoves;

/// One part of every page · pages: u8 `[pages, page_bytes]`
pub(super) fn move_part(pages: &mut ViewMut<'_>, moves: &mut PageMoves, part: &Range<usize>) {
    match moves {
        PageMoves::In(moves) => {
            for (from, to) in moves {
                pages.row_mut::<u8>(*to)[part.clone()].copy_from_slice(&from[part.clone()]);
            }
        }
        PageMoves::Out(moves) => {
            for (to, from) in moves {
                to[part.clone()].copy_from_slice(&pages.row_mut::<u8>(*from)[part.clone()]);
            }
        }
    }
}
