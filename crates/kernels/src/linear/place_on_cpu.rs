//! Weights brought to where the CPU wants them: packed, or as the file has them.

use std::sync::Arc;

use terrace_device::Buffer;

use super::biased_weight::BiasedWeight;
use super::few_columns::FewColumns;
use super::fixed_point::{COLUMNS_LEAST, FixedMatrix};
use super::linear::{Linear, LinearShape, TableUse};
use super::matrix::Matrix;
use super::packed::{PackedMatrix, PackedWeight};
use super::weight_format::WeightFormat;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_options::Compute;
use crate::error::Error;
use crate::random::SplitMix;

/// Packs weights for the default arithmetic; a table that is only looked up stays as it is.
pub(crate) fn place_on_cpu(
    ctx: &CpuCtx,
    weights: Vec<BiasedWeight>,
    table: Option<TableUse>,
) -> Result<Linear, Error> {
    // Checks that the weights fit each other.
    let linear = Linear::of_weights(weights);
    if ctx.compute() == Compute::F32 || table == Some(TableUse::LookUp) {
        return Ok(linear);
    }
    let weights = linear.into_weights();
    let table = table.map(|_| weights[0].weight.clone());
    let pack = |biased: BiasedWeight| {
        let weight = PackedMatrix::pack(&biased.weight, ctx.workers())?;
        biased.weight.unload();
        Ok(PackedWeight { weight, bias: biased.bias })
    };
    Ok(Linear::of_panels(weights.into_iter().map(pack).collect::<Result<_, Error>>()?, table))
}

/// Brings a weight to where products of many rows want it, whose inputs are activations.
pub(crate) fn place_product_on_cpu(ctx: &CpuCtx, biased: BiasedWeight) -> Result<Linear, Error> {
    let has_matrix_units = ctx.has_prompt_tiles();
    match ctx.compute() {
        _ if biased.weight.columns() < COLUMNS_LEAST => {
            Ok(Linear::of_few_columns(FewColumns::pack(&biased)?))
        }
        Compute::Fast if has_matrix_units => place_on_cpu(ctx, vec![biased], None),
        Compute::Fast => Ok(Linear::of_fixed_point(FixedMatrix::pack(&biased, ctx.workers())?)),
        Compute::F32 => Ok(Linear::of_weights(vec![biased])),
    }
}

/// Random weights of a shape, for measurements.
pub(crate) fn random_on_cpu(
    ctx: &CpuCtx,
    shape: LinearShape,
    format: WeightFormat,
    seed: u64,
) -> Result<Linear, Error> {
    let mut random = SplitMix::new(seed);
    let stacked = if shape.gated { 2 } else { 1 };
    let rows = shape.rows / stacked;
    let weight = |_| random_weight(&mut random, format, rows, shape.columns);
    let weights = (0..stacked).map(weight).collect::<Result<_, _>>()?;
    place_on_cpu(ctx, weights, shape.table)
}

fn random_weight(
    random: &mut SplitMix,
    format: WeightFormat,
    rows: usize,
    columns: usize,
) -> Result<BiasedWeight, Error> {
    let bytes = random.weights(format, rows * columns);
    let mut buffer = Buffer::zeroed(bytes.len(), "random weights")?;
    buffer.bytes_mut().copy_from_slice(&bytes);
    let weight = Matrix::new(format, rows, columns, Arc::new(buffer));
    Ok(BiasedWeight { weight, bias: None })
}
