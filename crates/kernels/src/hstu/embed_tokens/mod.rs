//! The inputs of the first layer: embedding rows, scaled, with the rows of their positions added.
//!
//! rows: f32 or bf16 `[rows, dim]` · ids: i32 `[tokens]`, which of them · positions: f32
//! `[positions, dim]` · position_ids: i32 `[tokens]`, -1 for none · out: f32 or act `[tokens, dim]`
//!
//! Roofline: 12 bytes and 2 flops per element; bound by memory bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;

use half::bf16;
use terrace_device::{DType, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::vector::Vector;

#[derive(Clone, Copy)]
pub struct EmbedTokensArgs<'a> {
    pub rows: View<'a>,
    pub ids: View<'a>,
    pub scale: f32,
    /// f32 `[positions * dim]`, and the row of each token; tables are added in this order.
    pub added: [Option<AddedRows<'a>>; 2],
}

/// Rows of a table that are added to those of tokens.
#[derive(Clone, Copy)]
pub struct AddedRows<'a> {
    pub table: &'a Vector,
    /// i32 `[tokens]`; -1 adds nothing
    pub ids: View<'a>,
}

pub(crate) fn embed_tokens(ctx: &CpuCtx, args: &EmbedTokensArgs<'_>, out: ViewMut<'_>) {
    let ([_, dim], [tokens]) = (args.rows.dims(), args.ids.dims());
    assert_eq!(out.dims(), [tokens, dim], "out of embed_tokens");
    let ids = args.ids.as_slice::<i32>();
    let added: Vec<(&[f32], &[i32])> = (args.added.iter().flatten())
        .map(|added| (added.table.view().as_slice(), added.ids.as_slice()))
        .collect();
    ctx.write_rows::<f32>(out, |token, out| {
        let row = ids[token] as usize;
        match args.rows.dtype() {
            DType::F32 => out.copy_from_slice(args.rows.row(row)),
            DType::Bf16 => {
                let row = args.rows.row::<bf16>(row);
                out.iter_mut().zip(row).for_each(|(out, x)| *out = x.to_f32());
            }
            other => panic!("embedding rows of {}", other.name()),
        }
        let added = added.iter().filter_map(|(table, ids)| {
            let id = usize::try_from(ids[token]).ok()?;
            Some(&table[id * dim..(id + 1) * dim])
        });
        reference::scale_and_add(out, args.scale, added);
    });
}
