//! In which order a decoder has the outputs of a product that PEFT's files have in another.
//!
//! GGUF's converter puts the halves of each head of Llama's queries and keys in turns, so that
//! neighbours rotate together. An adapter is trained on the published order.

use terrace_kernels::RopeStyle;

use super::adapter_branch::{AdapterBranch, BranchVector};
use super::branched_product::{BranchedProduct, LayerProduct};
use crate::decoder_spec::DecoderSpec;
use crate::layer_spec::AttentionSpec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    AsInFiles,
    /// The halves of each head in turns.
    InTurns {
        head_dim: usize,
    },
}

impl RowOrder {
    pub fn of(product: BranchedProduct, spec: &DecoderSpec) -> Self {
        let BranchedProduct::Layer(layer, LayerProduct::Query | LayerProduct::Key) = product else {
            return RowOrder::AsInFiles;
        };
        let Some(layer) = spec.layers.get(layer) else { return RowOrder::AsInFiles };
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        match spec.ropes[attention.rope].style {
            RopeStyle::Halves => RowOrder::AsInFiles,
            RopeStyle::Interleaved => RowOrder::InTurns { head_dim: attention.head_dim },
        }
    }

    pub fn to_model(self, branch: AdapterBranch) -> AdapterBranch {
        self.reordered(branch, |numbers, width, file_row| {
            let rows = 0..numbers.len() / width;
            rows.flat_map(|row| &numbers[file_row(row) * width..][..width]).copied().collect()
        })
    }

    pub fn to_files(self, branch: AdapterBranch) -> AdapterBranch {
        self.reordered(branch, |numbers, width, file_row| {
            let mut moved = vec![0.0; numbers.len()];
            for (row, numbers) in numbers.chunks_exact(width).enumerate() {
                moved[file_row(row) * width..][..width].copy_from_slice(numbers);
            }
            moved
        })
    }

    /// `moved` is given an array, the numbers of its rows, and the file's row for a model's.
    fn reordered(
        self,
        branch: AdapterBranch,
        moved: impl Fn(&[f32], usize, &dyn Fn(usize) -> usize) -> Vec<f32>,
    ) -> AdapterBranch {
        let RowOrder::InTurns { head_dim } = self else { return branch };
        let file_row = |row: usize| {
            let in_head = row % head_dim;
            row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2
        };
        let vector = |numbers: &[f32]| moved(numbers, 1, &file_row);
        AdapterBranch {
            b: moved(&branch.b, branch.rank, &file_row),
            vector: match &branch.vector {
                BranchVector::None => BranchVector::None,
                BranchVector::Norm(numbers) => BranchVector::Norm(vector(numbers)),
                BranchVector::Lengths(numbers) => BranchVector::Lengths(vector(numbers)),
            },
            ..branch
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_heads_stand_in_turns() {
        let rows: Vec<f32> = (0..8u8).map(f32::from).collect();
        let branch = AdapterBranch {
            rank: 1,
            alpha: 1.0,
            a: vec![1.0],
            b: rows.clone(),
            vector: BranchVector::Lengths(rows),
        };
        let order = RowOrder::InTurns { head_dim: 4 };
        let placed = order.to_model(branch.clone());
        assert_eq!(placed.b, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
        assert_eq!(placed.vector.numbers(), Some(&placed.b[..]));
        assert_eq!(order.to_files(placed), branch);
        assert_eq!(RowOrder::AsInFiles.to_model(branch.clone()), branch);
    }
}
