//! Cases side by side, as the model reads them.
//!
//! Where tokens are predicted, rows are shifted so that the first target of each stands in the
//! same column: what comes before is padded on the left, targets on the right. Rows of classes end
//! in the same column. Padding is token 0 and is attended to as any other; its targets are left
//! out.

use super::case::{Case, CaseTargets};
use crate::batch::Batch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseBatch {
    pub rows: usize,
    /// `[rows, tokens]`
    pub ids: Vec<i32>,
    /// `[rows, targets]`, of the last tokens: a token or a class; [`IGNORED_TARGET`] where there is
    /// none.
    pub targets: Vec<i32>,
}

/// As PyTorch has it.
pub const IGNORED_TARGET: i32 = -100;
const PADDING: i32 = 0;

impl CaseBatch {
    /// Cases of one kind: tokens, or classes.
    pub fn of(cases: &[Case]) -> Self {
        let before = |case: &Case| case.inputs().len() - case.predicting();
        let left = cases.iter().map(before).max().expect("a batch has cases");
        let target_width = cases.iter().map(Case::predicting).max().expect("a batch has cases");
        let width = left + target_width;
        let (mut ids, mut targets) = (Vec::new(), Vec::new());
        for case in cases {
            let start = ids.len();
            ids.resize(start + left - before(case), PADDING);
            ids.extend(case.inputs().iter().map(|id| id.cast_signed()));
            ids.resize(start + width, PADDING);
            push_targets(case, target_width, &mut targets);
        }
        CaseBatch { rows: cases.len(), ids, targets }
    }

    /// As a model is tuned with it.
    pub fn batch(&self) -> Batch<'_> {
        Batch { seqs: self.rows, ids: &self.ids, targets: &self.targets }
    }
}

fn push_targets(case: &Case, width: usize, targets: &mut Vec<i32>) {
    let start = targets.len();
    match &case.targets {
        CaseTargets::Class(class) => targets.push(*class as i32),
        CaseTargets::Tokens(ranges) => {
            let first = ranges[0].start;
            targets.resize(start + case.tokens.len() - first, IGNORED_TARGET);
            for range in ranges {
                for at in range.clone() {
                    targets[start + at - first] = case.tokens[at].cast_signed();
                }
            }
        }
    }
    targets.resize(start + width, IGNORED_TARGET);
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a case with one run of targets")]
mod tests {
    use std::ops::Range;

    use super::*;

    fn case(tokens: &[u32], ranges: &[Range<usize>]) -> Case {
        Case::new(tokens.to_vec(), CaseTargets::Tokens(ranges.to_vec())).expect("a case")
    }

    #[test]
    fn first_targets_stand_in_one_column() {
        let cases = [case(&[1, 2, 3, 4], &[2..4]), case(&[5, 6, 7, 8, 9], &[4..5])];
        let cases = CaseBatch::of(&cases);
        let batch = cases.batch();
        assert_eq!((batch.seqs, batch.tokens(), batch.target_tokens()), (2, 5, 2));
        assert_eq!(batch.ids, [0, 0, 1, 2, 3, 5, 6, 7, 8, 0]);
        assert_eq!(batch.targets, [3, 4, 9, IGNORED_TARGET]);
    }

    #[test]
    fn turns_between_targets_are_left_out() {
        let batch = CaseBatch::of(&[case(&[1, 2, 3, 4, 5, 6], &[1..2, 4..6])]);
        assert_eq!(batch.ids, [1, 2, 3, 4, 5]);
        assert_eq!(batch.targets, [2, IGNORED_TARGET, IGNORED_TARGET, 5, 6]);
    }

    #[test]
    fn classes_stand_at_the_end() {
        let of = |tokens: &[u32], class| Case::new(tokens.to_vec(), CaseTargets::Class(class));
        let cases = [of(&[1], 2).expect("a case"), of(&[3, 4, 5], 0).expect("a case")];
        let batch = CaseBatch::of(&cases);
        assert_eq!(batch.ids, [0, 0, 1, 3, 4, 5]);
        assert_eq!(batch.targets, [2, 0]);
    }
}
