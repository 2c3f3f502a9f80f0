//! Weights where a device wants them: products of one input, and vectors.

use terrace_device::{Buffer, DType, View};

use crate::matrix::Matrix;

/// Products of one input whose results lie side by side: one weight matrix, or several stacked.
pub struct Linear {
    rows: usize,
    columns: usize,
    home: LinearHome,
}

pub(crate) enum LinearHome {
    /// The parts as the file has them.
    Cpu(Vec<LinearPart>),
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
        Linear { rows, columns, home: LinearHome::Cpu(parts) }
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
            LinearHome::Cpu(parts) => parts.iter().map(|part| part.weight.bytes().len()).sum(),
        }
    }

    pub(crate) fn parts(&self) -> &[LinearPart] {
        match &self.home {
            LinearHome::Cpu(parts) => parts,
        }
    }
}

/// A few f32 numbers where a device wants them: a norm's weight, a rotation's frequencies.
pub struct Vector {
    buffer: Buffer,
    len: usize,
}

impl Vector {
    pub(crate) fn new(buffer: Buffer, len: usize) -> Self {
        Vector { buffer, len }
    }

    /// f32 `[len]`
    pub fn view(&self) -> View<'_> {
        self.buffer.view(DType::F32, [self.len])
    }
}
