//! The ops that a model is tuned with, held to their references.
//!
//! Where the plain version of an op is another branch of the op itself, it runs on a table of ops
//! that has no vectors.

mod loss;
mod products;
mod replay;
mod rows;

use terrace_device::{DType, Device, Shape};

use super::placed::Placed;
use super::{Extent, Report, numbers};
use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::{Compute, CpuOptions};
use crate::error::Error;
use crate::ops::Ops;
use crate::random::SplitMix;
use crate::tune_ops::TuneOps;

/// An error if the device has no such ops.
pub fn run_tune(ops: &Ops, seed: u64, extent: Extent) -> Result<Report, Error> {
    let level = Some(CpuLevel::Reference);
    let plain = Ops::cpu(CpuOptions { threads: 1, level, compute: Compute::F32 })?;
    let (ops, plain) = (ops.tuning()?, plain.tuning()?);
    let (device, act, compute) = (ops.device(), ops.activation(), ops.compute());
    let both = Both { ops, plain, device, act, compute };
    let mut random = SplitMix::new(seed);
    let mut report = Report::new(extent);
    rows::check(&both, &mut random, &mut report);
    products::check(&both, &mut random, &mut report);
    loss::check(&both, &mut random, &mut report);
    replay::check(&both, &mut random, &mut report);
    Ok(report)
}

/// The ops under test, and those without vectors.
struct Both<'a> {
    ops: TuneOps<'a>,
    plain: TuneOps<'a>,
    /// Of the ops under test.
    device: Device,
    act: DType,
    compute: Compute,
}

impl Both<'_> {
    /// Numbers as products with weights take them.
    fn rounded(&self, numbers: &[f32]) -> Vec<f32> {
        let dtype = match (self.compute, self.act) {
            (Compute::Fast, DType::F32) => DType::Bf16,
            (_, act) => act,
        };
        numbers::rounded(numbers.to_vec(), dtype)
    }

    /// f32 where the ops compute.
    fn exact(&self, numbers: &[f32], shape: impl Into<Shape>) -> Placed {
        Placed::of(&self.device, numbers, shape)
    }

    /// Activations where the ops compute.
    fn act(&self, numbers: &[f32], shape: impl Into<Shape>) -> Placed {
        Placed::numbers(&self.device, self.act, numbers, shape)
    }

    /// As many columns as the device takes of weights in half-width types.
    fn whole_columns(&self, columns: usize) -> usize {
        if self.act == DType::F32 { columns } else { columns.next_multiple_of(8) }
    }

    /// Of ops whose products round what other products gave.
    fn tolerance(&self) -> f64 {
        match self.compute {
            Compute::F32 => TOLERANCE,
            Compute::Fast => 2e-2,
        }
    }

    /// Holds what `f` computes with the one to what it computes with the other; the names tell its
    /// arrays apart.
    fn compare(
        &self,
        report: &mut Report,
        op: &'static str,
        case: &str,
        names: &[&str],
        tolerance: f64,
        f: impl Fn(&TuneOps<'_>) -> Vec<Vec<f32>>,
    ) {
        let (got, want) = (f(&self.ops), f(&self.plain));
        assert_eq!([got.len(), want.len()], [names.len(); 2], "arrays of {op}");
        for ((got, want), name) in got.iter().zip(&want).zip(names) {
            report.compare(op, format!("{name}, {case}"), tolerance, got, want);
        }
    }
}

/// Sums in f32 against sums in f64, relative to the largest number.
const TOLERANCE: f64 = 2e-5;
