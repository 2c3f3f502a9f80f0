//! The ops of one GPU: its kernels, loaded for one kind of model, and the memory they work in.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut, WorkerPool};

use super::cuda_linear::{CudaLinear, Piece};
use crate::arithmetic_class::{ArithmeticClass, DeviceClass, KERNEL_REVISION};
use crate::attention::attend_args::AttendArgs;
use crate::attention::dense::cuda::AttentionKernels;
use crate::attention::slots::AttendSlotsArgs;
use crate::attention::slots::cuda::SlotKernels;
use crate::elementwise::gate::Activation;
use crate::elementwise::gate::cuda::GateKernel;
use crate::elementwise::gather_rows::cuda::GatherRowsKernel;
use crate::elementwise::rms_norm::cuda::RmsNormKernels;
use crate::elementwise::rope_angles::RopeFrequencies;
use crate::elementwise::rope_angles::cuda::RopeAnglesKernel;
use crate::error::Error;
use crate::linear::linear::{Linear, LinearPart, LinearShape};
use crate::linear::matmul::cuda::ProductKernels;
use crate::linear::matmul::device_matrix::{DeviceMatrix, RUN_ROWS, RandomMatrix};
use crate::linear::matmul::matrix_kind::MatrixKind;
use crate::linear::matrix::Matrix;
use crate::linear::vector::Vector;
use crate::linear::weight_format::WeightFormat;
use crate::pages::copy_pages::cuda::CopyPagesKernel;
use crate::pages::paged_kv::PageLayout;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;
use crate::random::fill_random::cuda::FillRandomKernels;
use crate::sampling::cuda::SampleKernel;

/// What the ops are made for.
#[derive(Clone)]
pub struct CudaOptions {
    pub device: Arc<CudaDevice>,
    /// F32, where all arithmetic is f32, or Bf16.
    pub activation: DType,
    /// Folders to look for cuBLASLt in, before the usual ones.
    pub libs: Vec<PathBuf>,
    /// Of the host, for packing weights and for sampling there.
    pub threads: usize,
    /// No row's result depends on the other rows.
    pub deterministic: bool,
    /// Of the pages, in each group of layers.
    pub layouts: Vec<PageLayout>,
}

pub struct CudaOps {
    device: Arc<CudaDevice>,
    activation: DType,
    deterministic: bool,
    workers: WorkerPool,
    rms_norm: RmsNormKernels,
    gate: GateKernel,
    gather_rows: GatherRowsKernel,
    rope_angles: RopeAnglesKernel,
    copy_pages: CopyPagesKernel,
    fill_random: FillRandomKernels,
    sample: SampleKernel,
    products: ProductKernels,
    attention: AttentionKernels,
    slots: SlotKernels,
}

impl CudaOps {
    pub fn new(options: CudaOptions) -> Result<CudaOps, Error> {
        let CudaOptions { device, activation, layouts, deterministic, .. } = &options;
        assert!(matches!(activation, DType::F32 | DType::Bf16), "activations of {activation:?}");
        Ok(CudaOps {
            device: Arc::clone(device),
            activation: *activation,
            deterministic: *deterministic,
            workers: WorkerPool::new(options.threads)?,
            rms_norm: RmsNormKernels::load(device, *activation)?,
            gate: GateKernel::load(device, *activation)?,
            gather_rows: GatherRowsKernel::load(device)?,
            rope_angles: RopeAnglesKernel::load(device)?,
            copy_pages: CopyPagesKernel::load(device)?,
            fill_random: FillRandomKernels::load(device)?,
            sample: SampleKernel::load(device)?,
            products: ProductKernels::load(device, *activation, &options.libs, *deterministic)?,
            attention: AttentionKernels::load(device, layouts, *deterministic)?,
            slots: SlotKernels::new(device, *activation),
        })
    }

    pub fn device(&self) -> &Arc<CudaDevice> {
        &self.device
    }

    pub fn activation(&self) -> DType {
        self.activation
    }

    pub(crate) fn arithmetic_class(&self) -> ArithmeticClass {
        let (major, minor) = self.device.info().compute_capability;
        let byte = |number: u32| u8::try_from(number).expect("capabilities are small numbers");
        ArithmeticClass {
            kernel_revision: KERNEL_REVISION,
            device: DeviceClass::Cuda {
                compute_capability: (byte(major), byte(minor)),
                activation: self.activation,
            },
            deterministic: self.deterministic,
        }
    }

    pub fn workers(&self) -> &WorkerPool {
        &self.workers
    }

    /// Neighbours that are kept in the same way become one matrix.
    pub(crate) fn place(&self, parts: &[LinearPart]) -> Result<Linear, Error> {
        let columns = parts[0].weight.columns();
        let kind = |part: &LinearPart| self.kind_of(part.weight.format(), columns);
        let mut pieces = Vec::new();
        let mut rows = 0;
        for neighbours in parts.chunk_by(|a, b| kind(a) == kind(b)) {
            let matrices: Vec<&Matrix> = neighbours.iter().map(|part| &part.weight).collect();
            let piece = Piece {
                matrix: self.upload(kind(&neighbours[0]), &matrices, false)?,
                bias: self.place_bias(neighbours)?,
            };
            rows += piece.matrix.rows();
            pieces.push(piece);
        }
        let placed = CudaLinear { pieces, is_interleaved: false };
        Ok(Linear::on_cuda(rows, columns, placed))
    }

    /// Interleaved where the kernel that multiplies and gates at once can take it.
    pub(crate) fn place_gated(&self, gate: LinearPart, up: LinearPart) -> Result<Linear, Error> {
        let (rows, columns) = (gate.weight.rows(), gate.weight.columns());
        let kinds = [&gate, &up].map(|part| self.kind_of(part.weight.format(), columns));
        let has_bias = gate.bias.is_some() || up.bias.is_some();
        let fits = kinds[0] == kinds[1]
            && kinds[0] != MatrixKind::Dense(DType::F32)
            && rows.is_multiple_of(RUN_ROWS)
            && !has_bias;
        if !fits {
            return self.place(&[gate, up]);
        }
        let matrix = self.upload(kinds[0], &[&gate.weight, &up.weight], true)?;
        let pieces = vec![Piece { matrix, bias: None }];
        let placed = CudaLinear { pieces, is_interleaved: true };
        Ok(Linear::on_cuda(2 * rows, columns, placed))
    }

    pub(crate) fn random(
        &self,
        shape: LinearShape,
        format: WeightFormat,
        seed: u64,
    ) -> Result<Linear, Error> {
        let LinearShape { rows, columns, gated, .. } = shape;
        let kind = self.kind_of(format, columns);
        let random = RandomMatrix { format, kind, rows, columns, seed };
        let matrix = DeviceMatrix::random(&self.device, &self.workers, &self.fill_random, random)?;
        let pieces = vec![Piece { matrix, bias: None }];
        let is_interleaved = gated && kind != MatrixKind::Dense(DType::F32);
        Ok(Linear::on_cuda(rows, columns, CudaLinear { pieces, is_interleaved }))
    }

    pub(crate) fn embed(
        &self,
        ids: View<'_>,
        sampled: Option<View<'_>>,
        table: &CudaLinear,
        out: ViewMut<'_>,
    ) {
        self.products.embed(ids, sampled, table.only(), out);
    }

    pub(crate) fn rms_norm(&self, x: View<'_>, weight: View<'_>, eps: f32, out: ViewMut<'_>) {
        self.rms_norm.rms_norm(x, weight, eps, out);
    }

    pub(crate) fn add_rms_norm(
        &self,
        sum: ViewMut<'_>,
        delta: View<'_>,
        weight: View<'_>,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        self.rms_norm.add_rms_norm(sum, delta, weight, eps, out);
    }

    pub(crate) fn project(&self, x: View<'_>, weights: &CudaLinear, out: ViewMut<'_>) {
        let mut rest = out;
        for piece in &weights.pieces {
            let [_, columns] = rest.dims();
            let rows = piece.matrix.rows();
            let [mine, others] = rest.split_columns([rows, columns - rows]);
            self.products.project(x, &piece.matrix, piece.bias_view(), mine);
            rest = others;
        }
    }

    pub(crate) fn project_gated(
        &self,
        x: View<'_>,
        weights: &CudaLinear,
        kind: Activation,
        mut both: ViewMut<'_>,
        out: ViewMut<'_>,
    ) {
        let [_, width] = out.dims();
        if !weights.is_interleaved {
            self.project(x, weights, both.reborrow());
            let both = both.as_view();
            return self.gate.gate(both.columns(0, width), both.columns(width, width), kind, out);
        }
        let matrix = weights.only();
        if self.products.gates(x, matrix) {
            return self.products.project_gated(x, matrix, kind, out);
        }
        self.products.project(x, matrix, None, both.reborrow());
        self.gate.gate_interleaved(both.as_view(), kind, out);
    }

    pub(crate) fn rope_angles(
        &self,
        positions: View<'_>,
        frequencies: RopeFrequencies<'_>,
        scale: f32,
        cos: ViewMut<'_>,
        sin: ViewMut<'_>,
    ) {
        self.rope_angles.rope_angles(positions, frequencies, scale, cos, sin);
    }

    pub(crate) fn attend(&self, args: AttendArgs<'_, '_>) {
        self.attention.attend(&args);
    }

    /// Loads what slots of this layout need: before the first step, where nothing is loaded or
    /// taken any more. An error if the GPU has no kernels for them.
    pub fn prepare_slots(&self, layout: &SlotLayout) -> Result<(), Error> {
        self.slots.prepare(layout)
    }

    pub(crate) fn choose_slots(&self, kv: &SlotKv<'_>) {
        self.slots.choose_slots(kv);
    }

    pub(crate) fn attend_slots(&self, args: &AttendSlotsArgs<'_, '_>) {
        self.slots.attend(args);
    }

    pub(crate) fn gather_rows(&self, x: View<'_>, rows: View<'_>, out: ViewMut<'_>) {
        self.gather_rows.gather_rows(x, rows, out);
    }

    pub(crate) fn copy_pages(&self, pages: ViewMut<'_>, pairs: View<'_>) {
        self.copy_pages.copy_pages(pages, pairs);
    }

    /// Chooses a token for each of `rows`: [`SampleRow`](crate::sampling::SampleRow)s as u8
    /// `[picks, SampleRow::BYTES]` · logits: f32 `[_, vocab]` · ids: i32 `[picks]`
    ///
    /// An id is -1 if every logit is -inf or not a number; skipped ids stay as they are.
    pub fn sample(&self, logits: View<'_>, rows: View<'_>, ids: ViewMut<'_>) {
        self.sample.sample(logits, rows, ids);
    }

    /// An error if `sample` cannot choose among so many tokens.
    pub fn check_vocab(&self, vocab: usize) -> Result<(), Error> {
        match self.sample.most_vocab() {
            most if most < vocab => Err(Error::VocabOnGpu { vocab, most }),
            _ => Ok(()),
        }
    }

    pub(crate) fn widens(&self, matrix: &Matrix) -> bool {
        let is_quantised = matrix.format().block_weights() > 1;
        is_quantised
            && matches!(self.kind_of(matrix.format(), matrix.columns()), MatrixKind::Dense(_))
    }

    fn kind_of(&self, format: WeightFormat, columns: usize) -> MatrixKind {
        MatrixKind::of(format, columns, self.activation)
    }

    fn upload(
        &self,
        kind: MatrixKind,
        parts: &[&Matrix],
        interleaved: bool,
    ) -> Result<DeviceMatrix, Error> {
        let columns = parts[0].columns();
        if kind == MatrixKind::Dense(DType::Bf16) && !columns.is_multiple_of(8) {
            return Err(Error::ColumnsOnGpu { columns });
        }
        DeviceMatrix::upload(&self.device, &self.workers, kind, parts, interleaved)
    }

    /// The parts' biases side by side, zeros where one has none; `None` if none has.
    fn place_bias(&self, parts: &[LinearPart]) -> Result<Option<Vector>, Error> {
        if parts.iter().all(|part| part.bias.is_none()) {
            return Ok(None);
        }
        let bias =
            |part: &LinearPart| part.bias.clone().unwrap_or_else(|| vec![0.0; part.weight.rows()]);
        let values: Vec<f32> = parts.iter().flat_map(bias).collect();
        Vector::on_cuda(&self.device, &values).map(Some)
    }
}
