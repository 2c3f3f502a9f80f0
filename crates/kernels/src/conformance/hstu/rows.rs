//! Functions of single numbers, and rows that are picked.

use half::bf16;
use terrace_device::DType;

use super::norms::limit;
use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::report::Limit;
use crate::conformance::{Report, SIZES, SplitMix};
use crate::hstu::activate::{self, Pointwise};
use crate::hstu::embed_tokens::{self, AddedRows, EmbedTokensArgs};
use crate::hstu::unit_rows;
use crate::ops::Ops;

/// Exponents reach 8 here, which makes eight of each rounding before them.
const ACTIVATE_TOLERANCE: f64 = 4e-6;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES.into_iter().chain([1536]) {
        for kind in [Pointwise::Silu, Pointwise::Relu, Pointwise::Gelu] {
            activate(ops, random, report, dim, kind);
        }
    }
    for dim in SIZES.into_iter().chain([512, 9001]) {
        for dtype in [ops.activation(), DType::F32] {
            unit_rows(ops, random, report, dim, dtype);
        }
    }
    for dim in SIZES.into_iter().chain([512, 1030]) {
        for dtype in [DType::F32, DType::Bf16] {
            for out in [DType::F32, ops.activation()] {
                embed_tokens(ops, random, report, dim, [dtype, out]);
            }
        }
    }
}

/// Columns behind the meant ones stay as they are.
fn activate(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize, kind: Pointwise) {
    if report.skips("activate") {
        return;
    }
    let (device, act, rows) = (ops.device(), ops.activation(), 1 + random.below(20));
    let behind = [0, 8, 3][random.below(3)];
    let stride = dim + behind;
    let numbers = random.numbers(rows * stride).into_iter().map(|x| 8.0 * x).collect();
    let mut want = rounded(numbers, act);
    let mut placed = Placed::numbers(&device, act, &want, [rows, stride]);
    let [x, _] = placed.view_mut().split_columns([dim, behind]);
    ops.activate(x, kind);
    for row in want.chunks_exact_mut(stride) {
        activate::reference::activate(&mut row[..dim], kind);
    }
    let case = format!("{kind:?} {} {rows}x{dim} of {stride}", act.name());
    // A GELU of a large negative number is a difference of almost equal ones.
    match kind {
        Pointwise::Gelu => {
            report.compare("activate", case, limit(act), &placed.to_numbers(), &want);
        }
        Pointwise::Silu | Pointwise::Relu => {
            let limit = Limit::of(act, ACTIVATE_TOLERANCE);
            report.compare_each("activate", case, limit, &placed.to_numbers(), &want);
        }
    }
}

fn unit_rows(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize, act: DType) {
    if report.skips("unit_rows") {
        return;
    }
    let device = ops.device();
    let (tokens, picked, stride) = (13, 1 + random.below(20), dim + [0, 8, 3][random.below(3)]);
    let mut x = random.numbers(tokens * stride);
    // One row is shorter than the least length.
    x[..dim].iter_mut().for_each(|x| *x *= 1e-9);
    let rows: Vec<i32> = (0..picked).map(|i| (i * random.below(tokens)) as i32 % 13).collect();
    let placed = Placed::of(&device, &x, [tokens, stride]);
    let placed_rows = Placed::of(&device, &rows, [picked]);
    let mut out = Placed::poisoned(&device, act, [picked, dim]);
    let least = 1e-6;
    let view = placed.view().columns(0, dim);
    ops.unit_rows(view, placed_rows.view(), least, out.view_mut());
    let mut want = vec![f32::NAN; picked * dim];
    for (row, want) in rows.iter().zip(want.chunks_exact_mut(dim)) {
        unit_rows::reference::unit_row(&x[*row as usize * stride..][..dim], least, want);
    }
    let case = format!("{} {picked} of {tokens}x{dim}", act.name());
    let limit = Limit::of(act, 2e-6);
    report.compare_each("unit_rows", case, limit, &out.to_numbers(), &want);
}

fn embed_tokens(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    dim: usize,
    [dtype, out_dtype]: [DType; 2],
) {
    if report.skips("embed_tokens") {
        return;
    }
    let (device, rows, tokens) = (ops.device(), 17, 1 + random.below(40));
    let numbers = rounded(random.numbers(rows * dim), dtype);
    let placed = Placed::numbers(&device, dtype, &numbers, [rows, dim]);
    let ids: Vec<i32> = (0..tokens).map(|_| random.below(rows) as i32).collect();
    let (placed_ids, scale) = (Placed::of(&device, &ids, [tokens]), random.number());
    // None, one or two tables, with rows of -1 that add nothing.
    let added: Vec<(Vec<f32>, Vec<i32>)> = (0..random.below(3))
        .map(|_| {
            let ids = (0..tokens).map(|_| random.below(6) as i32 - 1).collect();
            (random.numbers(5 * dim), ids)
        })
        .collect();
    let tables = added.iter().map(|(table, ids)| {
        let table = ops.place_vector(table).expect("a small vector");
        (table, Placed::of(&device, ids, [tokens]))
    });
    let tables: Vec<_> = tables.collect();
    let table = |i: usize| tables.get(i).map(|(table, ids)| AddedRows { table, ids: ids.view() });
    let args = EmbedTokensArgs {
        rows: placed.view(),
        ids: placed_ids.view(),
        scale,
        added: [table(0), table(1)],
    };
    let mut out = Placed::poisoned(&device, out_dtype, [tokens, dim]);
    ops.embed_tokens(&args, out.view_mut());
    let mut want = Vec::new();
    for (token, id) in ids.iter().enumerate() {
        let mut row = numbers[*id as usize * dim..][..dim].to_vec();
        if dtype == DType::Bf16 {
            row.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32());
        }
        let rows = added.iter().filter_map(|(table, ids)| {
            let id = usize::try_from(ids[token]).ok()?;
            Some(&table[id * dim..(id + 1) * dim])
        });
        embed_tokens::reference::scale_and_add(&mut row, scale, rows);
        want.extend(row);
    }
    let types = [dtype, out_dtype].map(DType::name).join(" to ");
    let case = format!("{types}, {tokens}x{dim}, {} added", added.len());
    let limit = match out_dtype {
        DType::F32 => 2e-7,
        _ => 1.0 / 256.0,
    };
    report.compare("embed_tokens", case, limit, &out.to_numbers(), &want);
}
