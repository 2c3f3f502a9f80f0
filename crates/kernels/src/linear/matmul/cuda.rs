//! Products on a GPU: which kernel takes which.
//!
//! Very few outputs are `few_outputs.cu`'s. A few tokens are bound by reading the weights:
//! `panels.cu` (up to 8) and `tiles.cu` (up to 64) stream them as they are; dense ones go to
//! cuBLASLt from nine on, where it is there. More tokens are bound by the tensor cores: cuBLASLt
//! again, else `gemm.cu`; packed weights are first spread out, some rows at a time. Where results
//! may not depend on the batch, everything goes through `tiles.cu`. In f32 everything is plain.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View, ViewMut};

use super::bias::Bias;
use super::dense_product::DenseProduct;
use super::device_matrix::DeviceMatrix;
use super::few_outputs::{self, FewOutputsKernel};
use super::gemm::GemmKernels;
use super::matrix_kind::{MatrixKind, PANEL_ROWS, Packing};
use super::panels::{self, PanelsKernel};
use super::plain::PlainKernel;
use super::product::{Epilogue, Product};
use super::tiles::{self, TilesKernels};
use super::unpack_rows::UnpackKernel;
use crate::cuda::CublasLt;
use crate::elementwise::embed::cuda::EmbedKernel;
use crate::elementwise::gate::Activation;
use crate::error::Error;

pub(crate) struct ProductKernels {
    route: Route,
    embed: HashMap<MatrixKind, EmbedKernel>,
}

enum Route {
    Plain(PlainKernel),
    TensorCores(Box<TensorCores>),
}

struct TensorCores {
    streams: HashMap<MatrixKind, Streams>,
    few_outputs: FewOutputsKernel,
    gemm: GemmKernels,
    unpack: HashMap<Packing, UnpackKernel>,
    cublas: Option<CublasLt>,
    /// act: some rows of a packed matrix. Launches of one stream use it in turn.
    spread: Mutex<Buffer>,
    activation: DType,
    deterministic: bool,
}

/// The kernels that stream one kind of weights.
struct Streams {
    panels: PanelsKernel,
    tiles: TilesKernels,
}

/// Rows spread out at a time fill this much: small enough to stay in the second-level cache of an
/// H200 until they are multiplied.
const SPREAD_BYTES: usize = 32 << 20;
const PACKINGS: [Packing; 4] = [Packing::S4, Packing::Q4, Packing::Q6, Packing::Q8];

impl ProductKernels {
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        activation: DType,
        libs: &[PathBuf],
        deterministic: bool,
    ) -> Result<Self, Error> {
        let route = if activation == DType::F32 {
            Route::Plain(PlainKernel::load(device)?)
        } else {
            let kernels = TensorCores::load(device, activation, libs, deterministic)?;
            Route::TensorCores(Box::new(kernels))
        };
        let tables = PACKINGS.map(MatrixKind::Packed).into_iter();
        let tables = tables.chain([MatrixKind::Dense(activation)]);
        let embed = tables.map(|kind| Ok((kind, EmbedKernel::load(device, kind)?)));
        Ok(ProductKernels { route, embed: embed.collect::<Result<_, Error>>()? })
    }

    pub(crate) fn embed(
        &self,
        ids: View<'_>,
        sampled: Option<View<'_>>,
        table: &DeviceMatrix,
        out: ViewMut<'_>,
    ) {
        self.embed[&table.kind()].embed(ids, sampled, table, &out);
    }

    pub(crate) fn project(
        &self,
        x: View<'_>,
        matrix: &DeviceMatrix,
        bias: Option<Bias<'_>>,
        epilogue: Epilogue,
        out: ViewMut<'_>,
    ) {
        let product = Product { epilogue, ..Product::new(x, matrix, bias, None, out) };
        match &self.route {
            Route::Plain(plain) => {
                let dense = DenseProduct::new(x, matrix.dense(), bias, &product.out);
                plain.project(&DenseProduct { epilogue, ..dense });
            }
            Route::TensorCores(kernels) => kernels.project(product),
        }
    }

    /// Whether `project_gated` can take this input.
    pub(crate) fn gates(&self, x: View<'_>, matrix: &DeviceMatrix) -> bool {
        let [tokens, _] = x.dims();
        match &self.route {
            Route::Plain(_) => false,
            Route::TensorCores(kernels) => kernels.streams_it(tokens, matrix),
        }
    }

    /// The matrix has gate and up rows that take turns.
    pub(crate) fn project_gated(
        &self,
        x: View<'_>,
        matrix: &DeviceMatrix,
        kind: Activation,
        out: ViewMut<'_>,
    ) {
        let Route::TensorCores(kernels) = &self.route else { panic!("f32 is not gated here") };
        kernels.project(Product::new(x, matrix, None, Some(kind), out));
    }
}

impl ProductKernels {
    /// What computes products whose matrices may lie either way, if it is there.
    pub(crate) fn library(&self) -> Option<&CublasLt> {
        match &self.route {
            Route::Plain(_) => None,
            Route::TensorCores(kernels) => kernels.cublas.as_ref(),
        }
    }

    /// Calls `f` with rows of a matrix as numbers, act `[count, columns]`, and which they are: with
    /// all of a dense one, with some of a packed one at a time.
    pub(crate) fn for_rows(
        &self,
        matrix: &DeviceMatrix,
        rows: Range<usize>,
        mut f: impl FnMut(Range<usize>, View<'_>),
    ) {
        let MatrixKind::Packed(packing) = matrix.kind() else {
            let dense = matrix.dense().rows(rows.clone());
            return f(rows, dense);
        };
        let Route::TensorCores(kernels) = &self.route else { panic!("f32 is not packed here") };
        let slab = kernels.slab_rows(matrix.columns());
        let mut spread = kernels.spread.lock().unwrap_or_else(PoisonError::into_inner);
        for first in rows.clone().step_by(slab) {
            let part = first..rows.end.min(first + slab);
            let mut numbers = spread.view_mut(kernels.activation, [part.len(), matrix.columns()]);
            kernels.unpack[&packing].unpack_rows(matrix, part.clone(), &numbers.reborrow());
            f(part, numbers.into_view());
        }
    }
}

impl TensorCores {
    fn load(
        device: &Arc<CudaDevice>,
        activation: DType,
        libs: &[PathBuf],
        deterministic: bool,
    ) -> Result<Self, Error> {
        let unpack =
            PACKINGS.map(|packing| Ok((packing, UnpackKernel::load(device, packing, activation)?)));
        let home = Device::Cuda(Arc::clone(device));
        let dense = MatrixKind::Dense(activation);
        let kinds = PACKINGS.map(MatrixKind::Packed).into_iter().chain([dense]);
        let streams = kinds.map(|kind| Ok((kind, Streams::load(device, kind, activation)?)));
        Ok(TensorCores {
            streams: streams.collect::<Result<_, Error>>()?,
            few_outputs: FewOutputsKernel::load(device, activation)?,
            gemm: GemmKernels::load(device, activation)?,
            unpack: unpack.into_iter().collect::<Result<_, Error>>()?,
            cublas: CublasLt::open(device, activation, libs)?,
            spread: Mutex::new(home.take(SPREAD_BYTES, "spread weights")?),
            activation,
            deterministic,
        })
    }

    fn streams_it(&self, tokens: usize, matrix: &DeviceMatrix) -> bool {
        let is_dense = matches!(matrix.kind(), MatrixKind::Dense(_));
        // From nine dense tokens on the library is quicker than `tiles.cu` (H200, one layer of an
        // 8B model: 124 against 132 µs at 32 tokens, 128 against 150 at 64).
        let most = if is_dense && self.cublas.is_some() {
            panels::MOST_TOKENS
        } else {
            tiles::MOST_TOKENS
        };
        matrix.columns().is_multiple_of(32) && (tokens <= most || self.deterministic)
    }

    fn project(&self, product: Product<'_>) {
        assert_eq!(product.x.dtype(), self.activation, "type of x of project");
        if let MatrixKind::Dense(_) = product.matrix.kind()
            && product.matrix.rows() <= few_outputs::MOST_ROWS
        {
            let Product { x, matrix, bias, epilogue, out, .. } = product;
            let dense = DenseProduct::new(x, matrix.dense(), bias, &out);
            return self.few_outputs.project(&DenseProduct { epilogue, ..dense });
        }
        if !self.streams_it(product.tokens(), product.matrix) {
            return self.multiply(product);
        }
        let streams = &self.streams[&product.matrix.kind()];
        let by_panels = streams.panels.takes(product.tokens(), product.matrix);
        if by_panels && !self.deterministic {
            return streams.panels.project(&product);
        }
        let Product { x, matrix, bias, gate, epilogue, mut out } = product;
        let [tokens, _] = x.dims();
        let most = streams.tiles.most_tokens();
        for first in (0..tokens).step_by(most) {
            let part = first..tokens.min(first + most);
            let out = out.reborrow().rows(part.clone());
            let product = Product::new(x.rows(part), matrix, bias, gate, out);
            streams.tiles.project(&Product { epilogue, ..product });
        }
    }

    /// Many tokens.
    fn multiply(&self, product: Product<'_>) {
        assert!(product.gate.is_none(), "a product of many tokens is gated afterwards");
        let Product { x, matrix, bias, epilogue, mut out, .. } = product;
        let MatrixKind::Packed(packing) = matrix.kind() else {
            let dense = DenseProduct::new(x, matrix.dense(), bias, &out);
            return self.multiply_dense(&DenseProduct { epilogue, ..dense });
        };
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let slab = self.slab_rows(columns);
        let mut spread = self.spread.lock().unwrap_or_else(PoisonError::into_inner);
        for first in (0..rows).step_by(slab) {
            let count = slab.min(rows - first);
            let rows_out = spread.view_mut(self.activation, [count, columns]);
            self.unpack[&packing].unpack_rows(matrix, first..first + count, &rows_out);
            let weight = rows_out.into_view();
            let [_, mine, _] = out.reborrow().split_columns([first, count, rows - first - count]);
            let bias = bias.map(|bias| bias.rows(first..first + count));
            let dense = DenseProduct::new(x, weight, bias, &mine);
            self.multiply_dense(&DenseProduct { epilogue, ..dense });
        }
    }

    /// Rows of a packed matrix that are spread out at a time.
    fn slab_rows(&self, columns: usize) -> usize {
        let rows = SPREAD_BYTES / (columns * self.activation.bytes());
        (rows / PANEL_ROWS).max(1) * PANEL_ROWS
    }

    fn multiply_dense(&self, product: &DenseProduct<'_>) {
        let library = self.cublas.as_ref();
        if !library.is_some_and(|library| library.project(product)) {
            self.gemm.project(product);
        }
    }
}

impl Streams {
    fn load(device: &Arc<CudaDevice>, kind: MatrixKind, activation: DType) -> Result<Self, Error> {
        let panels = PanelsKernel::load(device, kind, activation)?;
        Ok(Streams { panels, tiles: TilesKernels::load(device, kind, activation)? })
    }
}
