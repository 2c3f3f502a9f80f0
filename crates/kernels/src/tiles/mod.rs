//! How rows are packed for the CPU's vectors and matrix units: what attention and matmuls both do
//! with rows, whatever these mean.

mod bf16_tiles;
mod panels;
mod row_products;
mod tile_shape;

pub(crate) use bf16_tiles::{ToTiles, write_bf16};
#[cfg(target_arch = "x86_64")]
pub(crate) use bf16_tiles::{narrow, tile_row};
pub(crate) use panels::{InputPanels, ToInputs, ToLanes};
pub(crate) use row_products::{GROUP, Products, Row, products, tile};
#[cfg(target_arch = "x86_64")]
pub(crate) use tile_shape::INT8_ORDER;
pub(crate) use tile_shape::{BLOCK_COLUMNS, PANEL_ROWS, TILE_NUMBERS, TILE_ROWS, tiles_numbers};
