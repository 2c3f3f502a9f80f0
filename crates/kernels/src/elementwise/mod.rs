//! Ops that go row by row or element by element.

pub(crate) mod add;
pub(crate) mod cast;
pub(crate) mod clear;
pub(crate) mod dropout;
pub(crate) mod embed;
pub(crate) mod gate;
pub(crate) mod gather_rows;
pub(crate) mod rms_norm;
pub(crate) mod rope;
pub(crate) mod rope_angles;
pub(crate) mod run_grid;
pub(crate) mod scale_columns;
