//! Weights where a device wants them: products of one input, and vectors.

use crate::cuda::CudaLinear;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::few_columns::FewColumns;
use crate::linear::fixed_point::FixedMatrix;
use crate::linear::matmul::device_matrix::DeviceMatrix;
use crate::linear::matmul::host_matrix::HostMatrix;
use crate::linear::matrix::Matrix;
use crate::linear::packed::PackedWeight;

/// Products of one input whose results lie side by side: one weight matrix, or several stacked.
pub struct Linear {
    rows: usize,
    columns: usize,
    storage: LinearStorage,
}

pub(crate) enum LinearStorage {
    AsInFile(Vec<BiasedWeight>),
    Panels {
        weights: Vec<PackedWeight>,
        /// The file's rows, if they are looked up too.
        table: Option<Matrix>,
    },
    /// One matrix, for [`Ops::project_activated`](crate::Ops::project_activated).
    FixedPoint(FixedMatrix),
    /// As [`FixedPoint`](Self::FixedPoint).
    FewColumns(FewColumns),
    Cuda(CudaLinear),
    /// One weight that is trained: what an optimiser changes in f32, and what the GPU multiplies.
    TrainedOnCuda {
        host: Matrix,
        placed: CudaLinear,
    },
    /// One weight that a GPU gets when it computes with it, see
    /// [`TuneOps::bring`](crate::TuneOps::bring).
    AwayFromCuda {
        /// What an optimiser changes, if it is trained.
        trained: Option<Matrix>,
        packed: HostMatrix,
    },
}

/// The extents of products to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearShape {
    pub rows: usize,
    pub columns: usize,
    /// The rows are those of a gated unit's two products.
    pub gated: bool,
    /// Whether rows are looked up.
    pub table: Option<TableUse>,
}

/// What the rows of an embedding table are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableUse {
    /// Looked up by token.
    LookUp,
    /// Also multiplied, to score the vocabulary.
    LookUpAndScore,
}

impl Linear {
    /// Panics unless all weights take the same input.
    pub(crate) fn of_weights(weights: Vec<BiasedWeight>) -> Self {
        let columns = weights[0].weight.columns();
        for biased in &weights {
            assert_eq!(biased.weight.columns(), columns, "columns of stacked weights");
            let bias_fits =
                biased.bias.as_ref().is_none_or(|bias| bias.len() == biased.weight.rows());
            assert!(bias_fits, "bias of stacked weights");
        }
        let rows = weights.iter().map(|biased| biased.weight.rows()).sum();
        Linear { rows, columns, storage: LinearStorage::AsInFile(weights) }
    }

    pub(crate) fn of_panels(weights: Vec<PackedWeight>, table: Option<Matrix>) -> Self {
        let rows = weights.iter().map(|biased| biased.weight.rows()).sum();
        let columns = weights[0].weight.columns();
        Linear { rows, columns, storage: LinearStorage::Panels { weights, table } }
    }

    pub(crate) fn of_fixed_point(matrix: FixedMatrix) -> Self {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        Linear { rows, columns, storage: LinearStorage::FixedPoint(matrix) }
    }

    pub(crate) fn of_few_columns(matrix: FewColumns) -> Self {
        let (rows, columns) = (matrix.outputs(), matrix.columns());
        Linear { rows, columns, storage: LinearStorage::FewColumns(matrix) }
    }

    pub(crate) fn into_weights(self) -> Vec<BiasedWeight> {
        match self.storage {
            LinearStorage::AsInFile(weights) => weights,
            _ => panic!("these weights are not as the file has them"),
        }
    }

    pub(crate) fn on_cuda(rows: usize, columns: usize, placed: CudaLinear) -> Self {
        Linear { rows, columns, storage: LinearStorage::Cuda(placed) }
    }

    pub(crate) fn trained_on_cuda(host: Matrix, placed: CudaLinear) -> Self {
        let (rows, columns) = (host.rows(), host.columns());
        Linear { rows, columns, storage: LinearStorage::TrainedOnCuda { host, placed } }
    }

    pub(crate) fn away_from_cuda(
        [rows, columns]: [usize; 2],
        trained: Option<Matrix>,
        packed: HostMatrix,
    ) -> Self {
        Linear { rows, columns, storage: LinearStorage::AwayFromCuda { trained, packed } }
    }

    /// Whether it has to be brought to the device before it computes with it.
    pub fn is_away(&self) -> bool {
        matches!(self.storage, LinearStorage::AwayFromCuda { .. })
    }

    /// Outputs of all products.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs of the products.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of the weights where they are.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            LinearStorage::AsInFile(weights) => {
                weights.iter().map(|biased| biased.weight.bytes().len()).sum()
            }
            LinearStorage::Panels { weights, .. } => {
                weights.iter().map(|biased| biased.weight.bytes()).sum()
            }
            LinearStorage::FixedPoint(matrix) => matrix.bytes(),
            LinearStorage::FewColumns(matrix) => matrix.bytes(),
            LinearStorage::Cuda(placed) | LinearStorage::TrainedOnCuda { placed, .. } => {
                placed.bytes()
            }
            LinearStorage::AwayFromCuda { packed, .. } => packed.bytes(),
        }
    }

    /// The one weight of what lies as in its file.
    pub(crate) fn only_matrix(&self) -> &Matrix {
        match self.storage.weights() {
            [only] => &only.weight,
            several => panic!("{} weights are stacked where one is wanted", several.len()),
        }
    }

    /// Some outputs of a product that lies as in its file.
    pub(crate) fn part(&self, rows: std::ops::Range<usize>) -> Linear {
        let only = self.only_matrix();
        let bias = self.storage.weights()[0].bias.as_ref().map(|bias| bias[rows.clone()].to_vec());
        Linear::of_weights(vec![BiasedWeight { weight: only.part(rows), bias }])
    }

    /// The weight of one product in f32 that nobody else holds, to be changed.
    pub(crate) fn trained_mut(&mut self) -> Option<&mut [f32]> {
        let LinearStorage::AsInFile(weights) = &mut self.storage else { return None };
        let [only] = &mut weights[..] else { return None };
        only.weight.f32s_mut()
    }

    /// The numbers of one weight in f32, row by row, where it is kept so.
    pub(crate) fn numbers(&self) -> Option<&[f32]> {
        match &self.storage {
            LinearStorage::AsInFile(weights) => match &weights[..] {
                [only] => only.weight.rows_in_place(0..only.weight.rows()),
                _ => None,
            },
            LinearStorage::TrainedOnCuda { host, .. }
            | LinearStorage::AwayFromCuda { trained: Some(host), .. } => {
                host.rows_in_place(0..host.rows())
            }
            _ => None,
        }
    }

    /// The one matrix that a GPU has of it.
    pub(crate) fn into_only(self) -> DeviceMatrix {
        let LinearStorage::Cuda(placed) = self.storage else {
            panic!("these weights are not a GPU's");
        };
        let [only] = <[_; 1]>::try_from(placed.matrices).ok().expect("one matrix");
        only.matrix
    }

    pub(crate) fn storage_mut(&mut self) -> &mut LinearStorage {
        &mut self.storage
    }

    pub(crate) fn storage(&self) -> &LinearStorage {
        &self.storage
    }

    /// The rows to look up.
    pub(crate) fn table(&self) -> &Matrix {
        match &self.storage {
            LinearStorage::AsInFile(weights) => &weights[0].weight,
            LinearStorage::Panels { table, .. } => table.as_ref().expect("placed as a table"),
            LinearStorage::FixedPoint(_) | LinearStorage::FewColumns(_) => {
                panic!("these weights are no table")
            }
            LinearStorage::Cuda(_)
            | LinearStorage::TrainedOnCuda { .. }
            | LinearStorage::AwayFromCuda { .. } => {
                panic!("the CPU cannot use weights of a GPU")
            }
        }
    }

    pub(crate) fn cuda(&self) -> &CudaLinear {
        match &self.storage {
            LinearStorage::Cuda(placed) | LinearStorage::TrainedOnCuda { placed, .. } => placed,
            LinearStorage::AwayFromCuda { .. } => panic!("weights on the host are brought first"),
            _ => panic!("a GPU cannot use weights of the CPU"),
        }
    }
}

impl LinearStorage {
    pub(crate) fn weights(&self) -> &[BiasedWeight] {
        match self {
            LinearStorage::AsInFile(weights) => weights,
            _ => panic!("these weights are not as the file has them"),
        }
    }
}
