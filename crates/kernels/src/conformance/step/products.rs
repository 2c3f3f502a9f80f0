//! Ops that read weights: embed, project, project_gated.

use terrace_device::DType;

use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::products::{matrix, unpacked};
use crate::conformance::report::Report;
use crate::cpu::cpu_options::Compute;
use crate::elementwise::gate;
use crate::elementwise::gate::Activation;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::gated_args::GatedArgs;
use crate::linear::linear::TableUse;
use crate::linear::matmul::reference::dot;
use crate::linear::row_kinds::RowKinds;
use crate::linear::weight_format::WeightFormat;
use crate::ops::{Ops, Table};
use crate::random::SplitMix;

/// f32 sums of up to 1024 terms against exact ones; random signs lose about 1e-7, in any order.
const PRODUCT_TOLERANCE: f64 = 2e-6;
/// Weights that are rounded to bf16, or products that are: half a unit of the last place in each
/// term, with random signs, and one rounding of the result.
const PRODUCT_TOLERANCE_BF16: f64 = 1.0 / 128.0;
/// The same with three bits more.
const PRODUCT_TOLERANCE_F16: f64 = 1.0 / 1024.0;
/// Activations that are rounded to 16-bit integers: up to 2^-16 of the largest in a block.
const PRODUCT_TOLERANCE_WORDS: f64 = 5e-5;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for format in WeightFormat::ALL {
        embed(ops, random, report, format);
    }
    for format in WeightFormat::ALL {
        for (tokens, blocks) in
            [(1, 8), (2, 8), (5, 3), (8, 4), (16, 2), (33, 8), (65, 3), (130, 2)]
        {
            // Whole blocks, and at least 64 columns: smaller products have no use in a model.
            let columns = (format.block_weights() * blocks).next_multiple_of(64);
            for origin in row_kinds(ops) {
                project(ops, random, report, Case { origin, format, tokens }, columns);
            }
        }
    }
    for kind in [Activation::Silu, Activation::GeluTanh] {
        for tokens in [1, 3, 17, 64, 129] {
            for origin in row_kinds(ops) {
                for format in [WeightFormat::Bf16, WeightFormat::Q4_0] {
                    gated(ops, random, report, Case { origin, format, tokens }, kind);
                }
            }
        }
    }
}

/// What a product is made of.
#[derive(Clone, Copy)]
struct Case {
    origin: Origin,
    format: WeightFormat,
    tokens: usize,
}

/// Where all rows of a case come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Prompt,
    Generated,
    /// Every third row is generated.
    Mixed,
}

/// Those that the ops treat differently.
fn row_kinds(ops: &Ops) -> Vec<Origin> {
    match &ops.table {
        Table::Cpu(ops) if ops.compute() == Compute::Fast => {
            vec![Origin::Prompt, Origin::Generated, Origin::Mixed]
        }
        _ => vec![Origin::Generated],
    }
}

/// The lists of rows of prompts, and of generated ones.
fn lists(origin: Origin, tokens: usize) -> [Vec<u32>; 2] {
    let is_prompt = |row: &u32| match origin {
        Origin::Prompt => true,
        Origin::Generated => false,
        Origin::Mixed => row % 3 != 2,
    };
    let (prompt, generated) = (0..tokens as u32).partition(is_prompt);
    [prompt, generated]
}

/// How far a product may be off, where all rows come from `origin`.
fn limit(ops: &Ops, origin: Origin, format: WeightFormat) -> f64 {
    match &ops.table {
        Table::Cpu(ops) if ops.compute() == Compute::Fast => {
            let is_quantised = 1 < format.block_weights();
            match origin == Origin::Generated && is_quantised {
                true => PRODUCT_TOLERANCE_WORDS,
                false => PRODUCT_TOLERANCE_BF16,
            }
        }
        _ => exact_limit(ops),
    }
}

fn exact_limit(ops: &Ops) -> f64 {
    match ops.activation() {
        DType::F32 => PRODUCT_TOLERANCE,
        DType::F16 => PRODUCT_TOLERANCE_F16,
        _ => PRODUCT_TOLERANCE_BF16,
    }
}

fn embed(ops: &Ops, random: &mut SplitMix, report: &mut Report, format: WeightFormat) {
    if report.skips("embed") {
        return;
    }
    let (device, vocab, tokens) = (ops.device(), 17, 9);
    let hidden = (2 * format.block_weights()).next_multiple_of(64);
    let table = weight(random, format, vocab, hidden, false);
    let rows = unpacked(&table.weight);
    let table = ops.place_table(table.weight, TableUse::LookUp).expect("a small table");
    let ids: Vec<i32> = (0..tokens).map(|_| random.below(vocab) as i32).collect();
    let placed = Placed::of(&device, &ids, [tokens]);
    let mut out = Placed::poisoned(&device, DType::F32, [tokens, hidden]);
    ops.embed(placed.view(), None, &table, out.view_mut());
    let want: Vec<f32> = ids.iter().flat_map(|&id| rows[id as usize].clone()).collect();
    let case = format.name().to_string();
    report.compare("embed", case, exact_limit(ops), &out.to_numbers(), &want);
}

/// Two stacked weights, one with a bias; into activations, and into f32.
fn project(ops: &Ops, random: &mut SplitMix, report: &mut Report, case: Case, columns: usize) {
    if report.skips("project") {
        return;
    }
    let Case { origin, format, tokens } = case;
    let (device, act) = (ops.device(), ops.activation());
    let rows = [8 * (1 + random.below(20)), 8 * (1 + random.below(20))];
    let stacked = vec![
        weight(random, format, rows[0], columns, false),
        weight(random, format, rows[1], columns, true),
    ];
    let x = rounded(random.numbers(tokens * columns), act);
    let want = products(&x, &stacked);
    let width = rows[0] + rows[1];
    let weights = ops.place(stacked).expect("small weights");
    let placed = Placed::numbers(&device, act, &x, [tokens, columns]);
    for out_type in if act == DType::F32 { vec![act] } else { vec![act, DType::F32] } {
        let mut out = Placed::poisoned(&device, out_type, [tokens, width]);
        let [prompt, generated] = &lists(origin, tokens);
        let row_kinds = RowKinds::Listed { prompt, generated };
        ops.project(placed.view(), row_kinds, &weights, out.view_mut());
        let (name, out_type) = (format.name(), out_type.name());
        let case =
            format!("{name} to {out_type}, {tokens} {origin:?} tokens, {columns} by {rows:?}");
        report.compare("project", case, limit(ops, origin, format), &out.to_numbers(), &want);
    }
}

fn gated(ops: &Ops, random: &mut SplitMix, report: &mut Report, case: Case, kind: Activation) {
    if report.skips("project_gated") {
        return;
    }
    let Case { origin, format, tokens } = case;
    let (device, act) = (ops.device(), ops.activation());
    let (columns, width) = (128, 64 * (1 + random.below(3)));
    let gate = weight(random, format, width, columns, false);
    let up = weight(random, format, width, columns, false);
    let x = rounded(random.numbers(tokens * columns), act);
    let mut want = vec![f32::NAN; tokens * width];
    let [gates, ups] = [&gate, &up].map(|biased| products(&x, std::slice::from_ref(biased)));
    gate::reference::gate(&gates, &ups, kind, &mut want);
    let weights = ops.place_gated(gate, up).expect("small weights");
    let placed = Placed::numbers(&device, act, &x, [tokens, columns]);
    let mut both = Placed::poisoned(&device, act, [tokens, 2 * width]);
    let mut out = Placed::poisoned(&device, act, [tokens, width]);
    let [prompt, generated] = &lists(origin, tokens);
    let row_kinds = RowKinds::Listed { prompt, generated };
    ops.project_gated(GatedArgs {
        x: placed.view(),
        row_kinds,
        weights: &weights,
        activation: kind,
        both: both.view_mut(),
        out: out.view_mut(),
    });
    let name = format.name();
    let case = format!("{kind:?} {name} {tokens} {origin:?} tokens, {columns} by {width}");
    // Both factors are products.
    report.compare(
        "project_gated",
        case,
        2.0 * limit(ops, origin, format),
        &out.to_numbers(),
        &want,
    );
}

fn weight(
    random: &mut SplitMix,
    format: WeightFormat,
    rows: usize,
    columns: usize,
    has_bias: bool,
) -> BiasedWeight {
    let weight = matrix(random, format, rows, columns);
    BiasedWeight { weight, bias: has_bias.then(|| random.numbers(rows)) }
}

/// The results of all tokens: `[tokens, rows of all weights]`.
fn products(x: &[f32], weights: &[BiasedWeight]) -> Vec<f32> {
    let mut rows = Vec::new();
    for biased in weights {
        let bias = biased.bias.clone().unwrap_or_else(|| vec![0.0; biased.weight.rows()]);
        rows.extend(unpacked(&biased.weight).into_iter().zip(bias));
    }
    let columns = weights[0].weight.columns();
    let of_token = |x| rows.iter().map(move |(weights, bias)| dot(x, weights) + bias);
    x.chunks_exact(columns).flat_map(of_token).collect()
}
