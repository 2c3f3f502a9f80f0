//! Picked rows of a matrix, in the order asked for.
//!
//! x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: f32 `[picked, dim]`
//!
//! Roofline: `8 dim` bytes per picked row, no flops. A step picks one row per sequence, which is
//! too little to share among threads.

pub(crate) mod cuda;

use terrace_device::{View, ViewMut};

pub(crate) fn gather_rows(x: View<'_>, rows: View<'_>, mut out: ViewMut<'_>) {
    let [tokens, dim] = x.dims();
    let [picked] = rows.dims();
    assert_eq!(out.dims(), [picked, dim], "out of gather_rows");
    for (i, &row) in rows.as_slice::<i32>().iter().enumerate() {
        let row = usize::try_from(row).unwrap_or_else(|_| panic!("row {row} of {tokens}"));
        out.row_mut::<f32>(i).copy_from_slice(x.row(row));
    }
}
