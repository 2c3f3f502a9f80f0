//! Weights where a device wants them: products of one input, and vectors.

use crate::cuda::CudaLinear;
use crate::linear::matrix::Matrix;
use crate::linear::packed::PackedPart;

/// Products of one input whose results lie side by side: one weight matrix, or several stacked.
pub struct Linear {
    rows: usize,
    columns: usize,
    home: LinearStorage,
}

pub(crate) enum LinearStorage {
    /// The parts as the file has them.
    Parts(Vec<LinearPart>),
    Panels {
        parts: Vec<PackedPart>,
        /// The file's rows, if they are looked up too.
        table: Option<Matrix>,
    },
    Cuda(CudaLinear),
}

/// A weight matrix with an optional bias, as a model's file gives it.
#[derive(Clone)]
pub struct LinearPart {
    pub weight: Matrix,
    /// One for each row of the weight.
    pub bias: Option<Vec<f32>>,
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
    /// Panics unless all parts take the same input.
    pub(crate) fn of_parts(parts: Vec<LinearPart>) -> Self {
        let columns = parts[0].weight.columns();
        for part in &parts {
            assert_eq!(part.weight.columns(), columns, "columns of stacked weights");
            let bias_fits = part.bias.as_ref().is_none_or(|bias| bias.len() == part.weight.rows());
            assert!(bias_fits, "bias of stacked weights");
        }
        let rows = parts.iter().map(|part| part.weight.rows()).sum();
        Linear { rows, columns, home: LinearStorage::Parts(parts) }
    }

    pub(crate) fn of_panels(parts: Vec<PackedPart>, table: Option<Matrix>) -> Self {
        let rows = parts.iter().map(|part| part.weight.rows()).sum();
        let columns = parts[0].weight.columns();
        Linear { rows, columns, home: LinearStorage::Panels { parts, table } }
    }

    pub(crate) fn into_parts(self) -> Vec<LinearPart> {
        match self.home {
            LinearStorage::Parts(parts) => parts,
            _ => panic!("these weights are not as the file has them"),
        }
    }

    pub(crate) fn on_cuda(rows: usize, columns: usize, placed: CudaLinear) -> Self {
        Linear { rows, columns, home: LinearStorage::Cuda(placed) }
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
        match &self.home {
            LinearStorage::Parts(parts) => parts.iter().map(|part| part.weight.bytes().len()).sum(),
            LinearStorage::Panels { parts, .. } => {
                parts.iter().map(|part| part.weight.bytes()).sum()
            }
            LinearStorage::Cuda(placed) => placed.bytes(),
        }
    }

    pub(crate) fn home(&self) -> &LinearStorage {
        &self.home
    }

    /// The rows to look up.
    pub(crate) fn table(&self) -> &Matrix {
        match &self.home {
            LinearStorage::Parts(parts) => &parts[0].weight,
            LinearStorage::Panels { table, .. } => table.as_ref().expect("placed as a table"),
            LinearStorage::Cuda(_) => panic!("the CPU cannot use weights of a GPU"),
        }
    }

    pub(crate) fn cuda(&self) -> &CudaLinear {
        match &self.home {
            LinearStorage::Cuda(placed) => placed,
            _ => panic!("a GPU cannot use weights of the CPU"),
        }
    }
}

impl LinearStorage {
    pub(crate) fn parts(&self) -> &[LinearPart] {
        match self {
            LinearStorage::Parts(parts) => parts,
            _ => panic!("these weights are not as the file has them"),
        }
    }
}
