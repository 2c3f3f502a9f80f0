//! The ops of one GPU: its kernels, loaded for one kind of model, and the memory they work in.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut, WorkerPool};

use super::cuda_linear::{BiasedMatrix, CudaLinear};
use super::tune_kernels::TuneKernels;
use super::typed_kernel::TypedKernel;
use crate::arithmetic_class::{ArithmeticClass, DeviceClass, KERNEL_REVISION};
use crate::attention::dense::cuda::AttentionKernels;
use crate::attention::slots::cuda::SlotKernels;
use crate::ctr::cuda::CtrKernels;
use crate::elementwise::gate::cuda::GateKernel;
use crate::elementwise::gather_rows::cuda::GatherRowsParams;
use crate::elementwise::rms_norm::cuda::RmsNormKernels;
use crate::elementwise::rope_angles::cuda::RopeAnglesParams;
use crate::error::Error;
use crate::hstu::cuda::HstuKernels;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::gated_args::GatedArgs;
use crate::linear::linear::{Linear, LinearShape, LinearStorage};
use crate::linear::lora::BranchKernels;
use crate::linear::matmul::bias::PlacedBias;
use crate::linear::matmul::cuda::ProductKernels;
use crate::linear::matmul::device_matrix::{DeviceMatrix, RUN_ROWS, RandomMatrix};
use crate::linear::matmul::host_matrix::HostMatrix;
use crate::linear::matmul::matrix_kind::MatrixKind;
use crate::linear::matmul::product::Epilogue;
use crate::linear::matrix::Matrix;
use crate::linear::weight_format::WeightFormat;
use crate::pages::copy_pages::cuda::CopyPagesParams;
use crate::pages::page_layout::PageLayout;
use crate::random::fill_random::cuda::FillRandomKernels;

/// What the ops are made for.
#[derive(Clone)]
pub struct CudaOptions {
    pub device: Arc<CudaDevice>,
    /// F32, where all arithmetic is f32; or F16 or Bf16, what tensor cores multiply.
    pub activation: DType,
    /// Folders to look for cuBLASLt in, before the usual ones.
    pub libs: Vec<PathBuf>,
    /// Of the host, for packing weights and for sampling there.
    pub threads: usize,
    /// No row's result depends on the other rows.
    pub deterministic: bool,
    /// Chunks attend with kernels that every GPU since Ampere has, on Hopper too: to check and
    /// measure them there.
    pub portable_chunks: bool,
    /// Of the pages, in each group of layers.
    pub layouts: Vec<PageLayout>,
}

pub(crate) struct CudaOps {
    device: Arc<CudaDevice>,
    activation: DType,
    deterministic: bool,
    on_hopper: bool,
    workers: WorkerPool,
    pub(crate) rms_norm: RmsNormKernels,
    pub(crate) gate: GateKernel,
    pub(crate) gather_rows: TypedKernel<GatherRowsParams>,
    pub(crate) rope_angles: TypedKernel<RopeAnglesParams>,
    pub(crate) copy_pages: TypedKernel<CopyPagesParams>,
    fill_random: FillRandomKernels,
    pub(crate) products: ProductKernels,
    pub(crate) attention: AttentionKernels,
    pub(crate) slots: SlotKernels,
    /// Of HSTU models; loaded when one is checked, or for the first of their ops.
    hstu: OnceLock<HstuKernels>,
    /// Of click-through models, in the same way.
    ctr: OnceLock<CtrKernels>,
    /// Of models that are tuned, in the same way.
    tune: OnceLock<TuneKernels>,
    /// Loaded with the first adapter that is served.
    branches: OnceLock<BranchKernels>,
}

impl CudaOps {
    pub(crate) fn new(options: CudaOptions) -> Result<CudaOps, Error> {
        let CudaOptions { device, activation, layouts, deterministic, .. } = &options;
        let on_hopper = device.compute_capability() == (9, 0) && !options.portable_chunks;
        let is_known = matches!(activation, DType::F32 | DType::F16 | DType::Bf16);
        assert!(is_known, "activations of {activation:?}");
        Ok(CudaOps {
            device: Arc::clone(device),
            activation: *activation,
            deterministic: *deterministic,
            on_hopper,
            workers: WorkerPool::new(options.threads)?,
            rms_norm: RmsNormKernels::load(device, *activation)?,
            gate: GateKernel::load(device, *activation)?,
            gather_rows: TypedKernel::load(device, "gather_rows", "any")?,
            rope_angles: TypedKernel::load(device, "rope_angles", "f32")?,
            copy_pages: TypedKernel::load(device, "copy_pages", "any")?,
            fill_random: FillRandomKernels::load(device)?,
            products: ProductKernels::load(device, *activation, &options.libs, *deterministic)?,
            attention: AttentionKernels::load(device, layouts, *deterministic, on_hopper)?,
            slots: SlotKernels::new(device, *activation, on_hopper),
            hstu: OnceLock::new(),
            ctr: OnceLock::new(),
            tune: OnceLock::new(),
            branches: OnceLock::new(),
        })
    }

    pub(crate) fn device(&self) -> &Arc<CudaDevice> {
        &self.device
    }

    pub(crate) fn activation(&self) -> DType {
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

    pub(crate) fn workers(&self) -> &WorkerPool {
        &self.workers
    }

    pub(crate) fn load_hstu(&self) -> Result<&HstuKernels, Error> {
        if self.hstu.get().is_none() {
            let CudaOps { device, activation, deterministic, on_hopper, .. } = self;
            let kernels = HstuKernels::load(device, *activation, *deterministic, *on_hopper)?;
            // Another thread may have been quicker.
            let _ = self.hstu.set(kernels);
        }
        Ok(self.hstu.get().expect("it was just loaded"))
    }

    pub(crate) fn hstu(&self) -> &HstuKernels {
        self.load_hstu().expect("PTX that is built in")
    }

    pub(crate) fn load_ctr(&self) -> Result<&CtrKernels, Error> {
        if self.ctr.get().is_none() {
            let kernels = CtrKernels::load(&self.device, self.activation)?;
            // Another thread may have been quicker.
            let _ = self.ctr.set(kernels);
        }
        Ok(self.ctr.get().expect("it was just loaded"))
    }

    pub(crate) fn ctr(&self) -> &CtrKernels {
        self.load_ctr().expect("PTX that is built in")
    }

    pub(crate) fn load_tune(&self) -> Result<&TuneKernels, Error> {
        if self.tune.get().is_none() {
            let kernels = TuneKernels::load(&self.device, self.activation, self.on_hopper)?;
            // Another thread may have been quicker.
            let _ = self.tune.set(kernels);
        }
        Ok(self.tune.get().expect("it was just loaded"))
    }

    pub(crate) fn load_branches(&self) -> Result<&BranchKernels, Error> {
        if self.branches.get().is_none() {
            let _ = self.branches.set(BranchKernels::load(&self.device, self.activation)?);
        }
        Ok(self.branches.get().expect("it was just loaded"))
    }

    /// Brings a branch's matrix to the device, in f32.
    pub(crate) fn place_branch(&self, weight: &Matrix) -> Result<Linear, Error> {
        let kind = MatrixKind::Dense(DType::F32);
        let matrix = DeviceMatrix::upload(&self.device, &self.workers, kind, &[weight], false)?;
        let placed = CudaLinear {
            matrices: vec![BiasedMatrix { matrix, bias: None }],
            is_interleaved: false,
        };
        Ok(Linear::on_cuda(weight.rows(), weight.columns(), placed))
    }

    /// Neighbours that are kept in the same way become one matrix.
    pub(crate) fn place(&self, weights: &[BiasedWeight]) -> Result<Linear, Error> {
        let columns = weights[0].weight.columns();
        let kind = |biased: &BiasedWeight| self.kind_of(biased.weight.format(), columns);
        let mut matrices = Vec::new();
        let mut rows = 0;
        for neighbours in weights.chunk_by(|a, b| kind(a) == kind(b)) {
            let stacked: Vec<&Matrix> = neighbours.iter().map(|biased| &biased.weight).collect();
            let matrix = self.upload(kind(&neighbours[0]), &stacked, false)?;
            rows += matrix.rows();
            matrices.push(BiasedMatrix { matrix, bias: self.place_bias(neighbours)? });
        }
        let placed = CudaLinear { matrices, is_interleaved: false };
        Ok(Linear::on_cuda(rows, columns, placed))
    }

    /// Brings a weight that is trained to the device, in the activations' type. Its rows need not
    /// be whole 16 bytes.
    pub(crate) fn place_trained(&self, weight: Matrix) -> Result<Linear, Error> {
        let kind = MatrixKind::Dense(self.activation);
        let matrix = DeviceMatrix::upload(&self.device, &self.workers, kind, &[&weight], false)?;
        let matrices = vec![BiasedMatrix { matrix, bias: None }];
        Ok(Linear::trained_on_cuda(weight, CudaLinear { matrices, is_interleaved: false }))
    }

    /// Leaves a weight in pinned host memory; `trained` ones are f32.
    pub(crate) fn place_away(&self, weight: Matrix, trained: bool) -> Result<Linear, Error> {
        let kind = match trained {
            true => MatrixKind::Dense(self.activation),
            false => self.kind_of(weight.format(), weight.columns()),
        };
        let packed = HostMatrix::new(&self.device, &self.workers, kind, &weight)?;
        let shape = [weight.rows(), weight.columns()];
        Ok(Linear::away_from_cuda(shape, trained.then_some(weight), packed))
    }

    /// Brings such a weight to the device, into the room of one that is not needed any more where
    /// that fits.
    pub(crate) fn bring(&self, away: &Linear, room: Option<Linear>) -> Result<Linear, Error> {
        let LinearStorage::AwayFromCuda { packed, .. } = away.storage() else {
            panic!("this weight is on the device");
        };
        let mut placed = match room.map(Linear::into_only) {
            Some(room) if packed.fits(&room) => room,
            _ => packed.room(&self.device)?,
        };
        packed.copy_to(&mut placed);
        let matrices = vec![BiasedMatrix { matrix: placed, bias: None }];
        let placed = CudaLinear { matrices, is_interleaved: false };
        Ok(Linear::on_cuda(away.rows(), away.columns(), placed))
    }

    /// Changes a trained weight, and brings it to the device again where it lies there.
    pub(crate) fn change(
        &self,
        linear: &mut Linear,
        f: impl FnOnce(&mut [f32]),
    ) -> Result<(), Error> {
        let changed = |host: &mut Matrix| {
            f(host.f32s_mut().expect("a trained weight is f32 and held once"));
        };
        match linear.storage_mut() {
            LinearStorage::TrainedOnCuda { host, placed } => {
                changed(host);
                let [only] = &mut placed.matrices[..] else {
                    panic!("a trained weight is one matrix");
                };
                only.matrix.write(&self.device, &self.workers, &[host], false)
            }
            LinearStorage::AwayFromCuda { trained: Some(host), packed } => {
                changed(host);
                // A copy of it may still be under way.
                self.device.synchronize()?;
                packed.write(&self.workers, host);
                Ok(())
            }
            _ => panic!("this weight is not trained"),
        }
    }

    /// Interleaved where the kernel that multiplies and gates at once can take it.
    pub(crate) fn place_gated(
        &self,
        gate: BiasedWeight,
        up: BiasedWeight,
    ) -> Result<Linear, Error> {
        let (rows, columns) = (gate.weight.rows(), gate.weight.columns());
        let kinds = [&gate, &up].map(|biased| self.kind_of(biased.weight.format(), columns));
        let has_bias = gate.bias.is_some() || up.bias.is_some();
        let fits = kinds[0] == kinds[1]
            && kinds[0] != MatrixKind::Dense(DType::F32)
            && rows.is_multiple_of(RUN_ROWS)
            && !has_bias;
        if !fits {
            return self.place(&[gate, up]);
        }
        let matrix = self.upload(kinds[0], &[&gate.weight, &up.weight], true)?;
        let matrices = vec![BiasedMatrix { matrix, bias: None }];
        let placed = CudaLinear { matrices, is_interleaved: true };
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
        let matrices = vec![BiasedMatrix { matrix, bias: None }];
        let is_interleaved = gated && kind != MatrixKind::Dense(DType::F32);
        Ok(Linear::on_cuda(rows, columns, CudaLinear { matrices, is_interleaved }))
    }

    pub(crate) fn project(
        &self,
        x: View<'_>,
        weights: &CudaLinear,
        epilogue: Epilogue,
        out: ViewMut<'_>,
    ) {
        let mut rest = out;
        for biased in &weights.matrices {
            let [_, columns] = rest.dims();
            let rows = biased.matrix.rows();
            let [mine, others] = rest.split_columns([rows, columns - rows]);
            self.products.project(x, &biased.matrix, biased.bias_view(), epilogue, mine);
            rest = others;
        }
    }

    pub(crate) fn project_gated(&self, args: GatedArgs<'_>) {
        let GatedArgs { x, weights, activation: kind, mut both, out, .. } = args;
        let ([_, width], weights) = (out.dims(), weights.cuda());
        if !weights.is_interleaved {
            self.project(x, weights, Epilogue::None, both.reborrow());
            let both = both.as_view();
            return self.gate.gate(both.columns(0, width), both.columns(width, width), kind, out);
        }
        let matrix = weights.only();
        if self.products.gates(x, matrix) {
            return self.products.project_gated(x, matrix, kind, out);
        }
        self.products.project(x, matrix, None, Epilogue::None, both.reborrow());
        self.gate.gate_interleaved(both.as_view(), kind, out);
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
        stacked: &[&Matrix],
        interleaved: bool,
    ) -> Result<DeviceMatrix, Error> {
        let columns = stacked[0].columns();
        if kind.is_dense_half() && !columns.is_multiple_of(8) {
            return Err(Error::ColumnsOnGpu { columns });
        }
        DeviceMatrix::upload(&self.device, &self.workers, kind, stacked, interleaved)
    }

    /// Biases side by side, zeros where one has none; `None` if none has.
    fn place_bias(&self, weights: &[BiasedWeight]) -> Result<Option<PlacedBias>, Error> {
        if weights.iter().all(|biased| biased.bias.is_none()) {
            return Ok(None);
        }
        let bias = |biased: &BiasedWeight| {
            biased.bias.clone().unwrap_or_else(|| vec![0.0; biased.weight.rows()])
        };
        let values: Vec<f32> = weights.iter().flat_map(bias).collect();
        PlacedBias::place(&self.device, self.activation, &values).map(Some)
    }
}
