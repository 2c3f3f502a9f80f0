//! One example: a sequence of tokens, and what is to be learnt of it.

use std::ops::Range;

use super::data_error::DataError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub tokens: Vec<u32>,
    pub targets: CaseTargets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseTargets {
    /// Tokens that are to be predicted from those before them: ranges in rising order, none of
    /// them empty. The first token has none before it.
    Tokens(Vec<Range<usize>>),
    /// The number of the class that the whole sequence belongs to.
    Class(usize),
}

impl Case {
    /// With every token to be predicted.
    pub fn of_text(tokens: Vec<u32>) -> Result<Self, DataError> {
        let all = 1..tokens.len();
        let ranges = if all.is_empty() { Vec::new() } else { vec![all] };
        Case::new(tokens, CaseTargets::Tokens(ranges))
    }

    /// An error if nothing can be learnt of it.
    pub fn new(tokens: Vec<u32>, targets: CaseTargets) -> Result<Self, DataError> {
        if let CaseTargets::Tokens(ranges) = &targets {
            let mut end = 1;
            for range in ranges {
                if range.start < end || range.end <= range.start || tokens.len() < range.end {
                    let (range, tokens) = (range.clone(), tokens.len());
                    return Err(DataError::Targets { range, tokens });
                }
                end = range.end;
            }
        }
        let learns = match &targets {
            CaseTargets::Tokens(ranges) => !ranges.is_empty(),
            CaseTargets::Class(_) => !tokens.is_empty(),
        };
        match learns {
            true => Ok(Case { tokens, targets }),
            false => Err(DataError::NothingToLearn { tokens: tokens.len() }),
        }
    }

    /// Tokens that the model reads: of sequences whose tokens are predicted, all but the last.
    pub fn inputs(&self) -> &[u32] {
        match self.targets {
            CaseTargets::Tokens(_) => &self.tokens[..self.tokens.len() - 1],
            CaseTargets::Class(_) => &self.tokens,
        }
    }

    /// Inputs from the first on that predicts a target.
    pub fn predicting(&self) -> usize {
        match &self.targets {
            CaseTargets::Tokens(ranges) => self.tokens.len() - ranges[0].start,
            CaseTargets::Class(_) => 1,
        }
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a case with one run of targets")]
mod tests {
    use super::*;

    #[test]
    fn targets_follow_tokens() {
        let case = Case::of_text(vec![5, 6, 7]).expect("two targets");
        assert_eq!((case.inputs(), case.predicting()), (&[5, 6][..], 2));
        let turns = CaseTargets::Tokens(vec![2..3, 4..6]);
        let case = Case::new(vec![1; 7], turns).expect("two turns");
        assert_eq!((case.inputs().len(), case.predicting()), (6, 5));
        let class = Case::new(vec![1; 7], CaseTargets::Class(2)).expect("a class");
        assert_eq!((class.inputs().len(), class.predicting()), (7, 1));
    }

    #[test]
    fn what_has_no_targets_is_refused() {
        assert!(Case::of_text(vec![5]).is_err());
        assert!(Case::of_text(Vec::new()).is_err());
        for ranges in [vec![0..2], vec![1..1], vec![3..4, 2..3], vec![1..9], vec![]] {
            assert!(Case::new(vec![1; 5], CaseTargets::Tokens(ranges)).is_err());
        }
        assert!(Case::new(Vec::new(), CaseTargets::Class(0)).is_err());
    }
}
