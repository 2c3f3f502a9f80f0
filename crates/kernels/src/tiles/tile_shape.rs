//! Extents of what vectors and matrix units take at a time.

/// Rows of a panel, one to a lane of the widest vectors.
pub(crate) const PANEL_ROWS: usize = 16;
/// Columns of a block, and of a tile.
pub(crate) const BLOCK_COLUMNS: usize = 32;
/// Rows of a tile.
pub(crate) const TILE_ROWS: usize = 16;
/// Numbers of a tile.
pub(crate) const TILE_NUMBERS: usize = TILE_ROWS * BLOCK_COLUMNS;
/// Where the weights of eight columns are in two operands of bytes.
pub(crate) const INT8_ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Numbers of sixteen rows, in whole tiles.
pub(crate) const fn tiles_numbers(columns: usize) -> usize {
    columns.div_ceil(BLOCK_COLUMNS) * TILE_NUMBERS
}
