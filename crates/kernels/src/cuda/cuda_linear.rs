//! Stacked products where a GPU wants them.

use crate::linear::matmul::bias::{Bias, PlacedBias};
use crate::linear::matmul::device_matrix::DeviceMatrix;

/// Products of one input, side by side. Neighbours of one kind are one matrix.
pub(crate) struct CudaLinear {
    pub matrices: Vec<BiasedMatrix>,
    /// Whether gate and up rows of a gated unit take turns, as the fused kernel wants them.
    pub is_interleaved: bool,
}

pub(crate) struct BiasedMatrix {
    pub matrix: DeviceMatrix,
    pub bias: Option<PlacedBias>,
}

impl BiasedMatrix {
    pub fn bias_view(&self) -> Option<Bias<'_>> {
        self.bias.as_ref().map(PlacedBias::view)
    }
}

impl CudaLinear {
    /// Says which products a step computes after these.
    pub fn link(&self, next: &CudaLinear) {
        let all = self.matrices.iter().chain(&next.matrices[..1]).map(|biased| &biased.matrix);
        for (matrix, after) in all.clone().zip(all.skip(1)) {
            matrix.link(after);
        }
    }

    pub fn bytes(&self) -> usize {
        self.matrices.iter().map(|biased| biased.matrix.bytes()).sum()
    }

    /// The only matrix, of products that are not stacked.
    pub fn only(&self) -> &DeviceMatrix {
        assert_eq!(self.matrices.len(), 1, "a table is one matrix");
        &self.matrices[0].matrix
    }
}
