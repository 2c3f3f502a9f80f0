//! The branch of one product.

use super::lora_kind::LoraKind;

#[derive(Clone, Debug, PartialEq)]
pub struct AdapterBranch {
    pub rank: usize,
    /// The branch is scaled by `alpha / rank`.
    pub alpha: f64,
    /// `[rank, columns]`
    pub a: Vec<f32>,
    /// `[rows, rank]`
    pub b: Vec<f32>,
    pub vector: BranchVector,
}

/// What some kinds have for each output.
#[derive(Clone, Debug, PartialEq)]
pub enum BranchVector {
    None,
    /// The weight of the branch's norm.
    Norm(Vec<f32>),
    /// The length of each row.
    Lengths(Vec<f32>),
}

impl AdapterBranch {
    pub fn scale(&self) -> f32 {
        (self.alpha / self.rank as f64) as f32
    }

    /// Says what does not fit a product of this shape.
    pub(super) fn check(&self, [rows, columns]: [usize; 2]) -> Result<(), String> {
        let AdapterBranch { rank, alpha, a, b, vector } = self;
        if *rank == 0 || !self.scale().is_finite() {
            return Err(format!("rank {rank} and alpha {alpha:?} give no scale"));
        }
        let found = [a.len(), b.len(), vector.numbers().map_or(rows, <[f32]>::len)];
        let wanted = [rank * columns, rows * rank, rows];
        if found != wanted {
            return Err(format!("numbers of a, b and the vector are {found:?}, not {wanted:?}"));
        }
        Ok(())
    }
}

impl BranchVector {
    pub fn kind(&self) -> LoraKind {
        match self {
            BranchVector::None => LoraKind::Default,
            BranchVector::Norm(_) => LoraKind::RmsNorm,
            BranchVector::Lengths(_) => LoraKind::Dora,
        }
    }

    pub fn numbers(&self) -> Option<&[f32]> {
        match self {
            BranchVector::None => None,
            BranchVector::Norm(numbers) | BranchVector::Lengths(numbers) => Some(numbers),
        }
    }

    pub(super) fn of(kind: LoraKind, numbers: Vec<f32>) -> Self {
        match kind {
            LoraKind::Default => BranchVector::None,
            LoraKind::RmsNorm => BranchVector::Norm(numbers),
            LoraKind::Dora => BranchVector::Lengths(numbers),
        }
    }
}
