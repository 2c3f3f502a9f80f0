//! Weights brought to where the CPU wants them: packed, or as the file has them.

use std::sync::Arc;

use terrace_device::Buffer;

use super::linear::{Linear, LinearPart, LinearShape, TableUse};
use super::matrix::Matrix;
use super::packed::{PackedMatrix, PackedPart};
use super::weight_format::WeightFormat;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_options::Compute;
use crate::error::Error;
use crate::random::SplitMix;

/// Packs weights for the default arithmetic; a table that is only looked up stays as it is.
pub(crate) fn place_on_cpu(
    ctx: &CpuCtx,
    parts: Vec<LinearPart>,
    table: Option<TableUse>,
) -> Result<Linear, Error> {
    // Checks that the parts fit each other.
    let linear = Linear::of_parts(parts);
    if ctx.compute() == Compute::F32 || table == Some(TableUse::LookUp) {
        return Ok(linear);
    }
    let parts = linear.into_parts();
    let table = table.map(|_| parts[0].weight.clone());
    let pack = |part: LinearPart| {
        let weight = PackedMatrix::pack(&part.weight, ctx.workers())?;
        part.weight.unload();
        Ok(PackedPart { weight, bias: part.bias })
    };
    Ok(Linear::of_panels(parts.into_iter().map(pack).collect::<Result<_, Error>>()?, table))
}

/// Random weights of a shape, for measurements.
pub(crate) fn random_on_cpu(
    ctx: &CpuCtx,
    shape: LinearShape,
    format: WeightFormat,
    seed: u64,
) -> Result<Linear, Error> {
    let mut random = SplitMix::new(seed);
    let parts = if shape.gated { 2 } else { 1 };
    let rows = shape.rows / parts;
    let part = |_| random_part(&mut random, format, rows, shape.columns);
    let parts = (0..parts).map(part).collect::<Result<_, _>>()?;
    place_on_cpu(ctx, parts, shape.table)
}

fn random_part(
    random: &mut SplitMix,
    format: WeightFormat,
    rows: usize,
    columns: usize,
) -> Result<LinearPart, Error> {
    let bytes = random.weights(format, rows * columns);
    let mut buffer = Buffer::zeroed(bytes.len(), "random weights")?;
    buffer.bytes_mut().copy_from_slice(&bytes);
    let weight = Matrix::new(format, rows, columns, Arc::new(buffer));
    Ok(LinearPart { weight, bias: None })
}
