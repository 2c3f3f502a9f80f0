//! An ONNX file, ready to be computed for any number of samples.
//!
//! Whatever the file says of its first axis, samples take its place. All else is checked when the
//! file is read: what was read can be computed.

use std::sync::Arc;

use terrace_kernels::Combiner;
use terrace_model::ctr::CtrInputs;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{DimFact, Factoid};
use tract_onnx::tract_hir::internal::DimLike;

use crate::guarded::guarded;
use crate::onnx_inputs::{DeclaredInput, InputRole, WIDTH_MOST, roles_of};

pub struct OnnxNetwork {
    plan: Arc<TypedRunnableModel>,
    inputs: CtrInputs,
    roles: Vec<InputRole>,
    /// Numbers that each output has for a sample.
    widths: Vec<usize>,
}

/// Inputs of a batch that are filled before it is computed.
pub struct OnnxBatch {
    samples: usize,
    tensors: Vec<Tensor>,
}

/// Most samples with which the file is tried when it is read.
const TRIED: usize = 3;

impl OnnxNetwork {
    /// Rows of a slot's keys are combined so.
    pub fn read(file: &[u8], combiner: Combiner) -> Result<Self, String> {
        let model = guarded(|| {
            let onnx = tract_onnx::onnx().with_ignore_output_shapes(true);
            onnx.with_ignore_value_info(true).model_for_read(&mut &*file)
        })?;
        let declared = guarded(|| declared_inputs(&model))?;
        let (inputs, roles) = roles_of(&declared, combiner)?;
        let model = guarded(|| with_samples(model, &inputs, &roles)).map_err(not_for_any)?;
        let plan = planned(&model)?;
        let widths = output_widths(&plan)?;
        let network = OnnxNetwork { plan, inputs, roles, widths };
        network.try_samples()?;
        Ok(network)
    }

    pub fn inputs(&self) -> &CtrInputs {
        &self.inputs
    }

    /// Numbers of a sample's result: all outputs side by side.
    pub fn output_width(&self) -> usize {
        self.widths.iter().sum()
    }

    /// All zeros.
    pub fn batch(&self, samples: usize) -> Result<OnnxBatch, String> {
        let zeros = |role: &InputRole| match role {
            InputRole::Dense => Tensor::zero::<f32>(&[samples, self.inputs.dense_dim]),
            InputRole::Table(table) => {
                let table = &self.inputs.tables[*table];
                Tensor::zero::<f32>(&[samples, table.slots, table.dim])
            }
        };
        let tensors = guarded(|| self.roles.iter().map(zeros).collect())?;
        Ok(OnnxBatch { samples, tensors })
    }

    /// Fills an input of a batch, which is there · `[samples, features]` or `[samples, slots, dim]`
    pub fn fill<R>(
        &self,
        batch: &mut OnnxBatch,
        role: InputRole,
        fill: impl FnOnce(&mut [f32]) -> R,
    ) -> R {
        let at = self.roles.iter().position(|it| *it == role).expect("the file has the input");
        let mut plain = batch.tensors[at].as_plain_ram_mut().expect("zeros lie in memory");
        fill(plain.as_slice_mut().expect("zeros are f32"))
    }

    /// out: `[samples, output_width]`
    pub fn compute(&self, batch: OnnxBatch, out: &mut [f32]) -> Result<(), String> {
        let samples = batch.samples;
        assert_eq!(out.len(), samples * self.output_width(), "numbers of a batch");
        let inputs = batch.tensors.into_iter().map(TValue::from).collect();
        let outputs = guarded(|| self.plan.run(inputs))?;
        let mut first = 0;
        for (output, width) in outputs.iter().zip(&self.widths) {
            let plain = guarded(|| output.try_as_plain_ram())?;
            let numbers = guarded(|| plain.as_slice::<f32>())?;
            if numbers.len() != samples * width {
                let (found, wanted) = (numbers.len(), samples * width);
                return Err(format!(
                    "an output has {found} numbers for {samples} samples, not {wanted}"
                ));
            }
            let rows = out.chunks_exact_mut(self.output_width());
            for (row, numbers) in rows.zip(numbers.chunks_exact(*width)) {
                row[first..first + width].copy_from_slice(numbers);
            }
            first += width;
        }
        Ok(())
    }

    /// A file that was exported for one number of samples fails here, not while it serves.
    fn try_samples(&self) -> Result<(), String> {
        for samples in 1..=TRIED {
            let mut out = vec![0.0; samples * self.output_width()];
            self.compute(self.batch(samples)?, &mut out).map_err(not_for_any)?;
        }
        Ok(())
    }
}

fn declared_inputs(model: &InferenceModel) -> TractResult<Vec<DeclaredInput>> {
    let declared = |outlet: &OutletId| {
        let fact = model.outlet_fact(*outlet)?;
        let extent = |extent: &DimFact| extent.concretize().and_then(|it| it.to_usize().ok());
        Ok(DeclaredInput {
            name: model.node(outlet.node).name.clone(),
            is_f32: fact.datum_type.concretize() == Some(f32::datum_type()),
            extents: (!fact.shape.is_open()).then(|| fact.shape.dims().map(extent).collect()),
        })
    };
    model.input_outlets()?.iter().map(declared).collect()
}

/// Shapes of all, by the number of samples.
fn with_samples(
    mut model: InferenceModel,
    inputs: &CtrInputs,
    roles: &[InputRole],
) -> TractResult<TypedModel> {
    let samples = model.symbols.sym("SAMPLES").to_dim();
    for (at, role) in roles.iter().enumerate() {
        let shape = match role {
            InputRole::Dense => tvec![samples.clone(), inputs.dense_dim.to_dim()],
            InputRole::Table(table) => {
                let table = &inputs.tables[*table];
                tvec![samples.clone(), table.slots.to_dim(), table.dim.to_dim()]
            }
        };
        model.set_input_fact(at, InferenceFact::dt_shape(f32::datum_type(), shape))?;
    }
    model.into_typed()
}

fn not_for_any(problem: String) -> String {
    format!(
        "it cannot be computed for any number of samples; export the model with an open first axis \
         (PyTorch: dynamic_shapes): {problem}"
    )
}

/// Optimised, or as it stands where the library fails to.
fn planned(model: &TypedModel) -> Result<Arc<TypedRunnableModel>, String> {
    guarded(|| model.clone().into_optimized()?.into_runnable()).or_else(|problem| {
        tracing::warn!("an ONNX file is computed without optimisation: {problem}");
        guarded(|| model.clone().into_runnable())
    })
}

/// Of each output, how many numbers it has for a sample.
fn output_widths(plan: &TypedRunnableModel) -> Result<Vec<usize>, String> {
    let model = plan.model();
    let outlets = guarded(|| model.output_outlets())?;
    let width = |outlet: &OutletId| {
        let fact = guarded(|| model.outlet_fact(*outlet))?;
        let name = &model.node(outlet.node).name;
        let mut extents = fact.shape.iter().skip(1);
        let width =
            extents.try_fold(1, |width: usize, extent| width.checked_mul(extent.to_usize().ok()?));
        let width = width.filter(|width| (1..=WIDTH_MOST).contains(width));
        match (width, fact.datum_type == f32::datum_type(), fact.rank()) {
            (Some(width), true, 1..) => Ok(width),
            _ => Err(format!(
                "output {name:?} is {fact:?}; an output is of 32-bit floats, and has a row of a \
                 fixed length for each sample"
            )),
        }
    };
    match outlets {
        [] => Err("it has no outputs".to_owned()),
        outlets => outlets.iter().map(width).collect(),
    }
}
