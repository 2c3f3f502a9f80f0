//! Which cases train, which validate and which test.

use terrace_kernels::random::SplitMix;

use super::data_error::DataError;

/// Numbers of cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    pub train: Vec<usize>,
    pub validation: Vec<usize>,
    pub test: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SplitOptions {
    /// Longer cases neither train nor validate.
    pub max_seq_length: Option<usize>,
    /// Of the cases that are not too long.
    pub val_split_fraction: f64,
    pub test_set: Option<TestSet>,
    pub seed: u64,
}

/// Which cases test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestSet {
    /// `rest`: those that are too long, in rising length.
    Rest,
}

impl TestSet {
    pub fn named(tag: &str) -> Option<Self> {
        (tag == "rest").then_some(TestSet::Rest)
    }
}

impl Split {
    /// `lengths`: of all cases.
    pub fn new(lengths: &[usize], options: &SplitOptions) -> Result<Self, DataError> {
        let most = options.max_seq_length.unwrap_or(usize::MAX);
        let (fitting, mut rest): (Vec<usize>, Vec<usize>) =
            (0..lengths.len()).partition(|case| lengths[*case] <= most);
        let validation = (fitting.len() as f64 * options.val_split_fraction).round() as usize;
        let validation = match options.val_split_fraction > 0.0 {
            true => validation.max(1),
            false => 0,
        };
        if fitting.len() <= validation {
            let (cases, fitting) = (lengths.len(), fitting.len());
            return Err(DataError::TooFewCases { cases, fitting, most });
        }
        let mut random = SplitMix::new(options.seed);
        let order = random.shuffled(fitting.len());
        let part = |order: &[usize]| {
            let mut cases: Vec<usize> = order.iter().map(|at| fitting[*at]).collect();
            cases.sort_unstable();
            cases
        };
        let (validation, train) = order.split_at(validation);
        let (validation, train) = (part(validation), part(train));
        rest.sort_by_key(|case| (lengths[*case], *case));
        let test = match options.test_set {
            Some(TestSet::Rest) => rest,
            None => Vec::new(),
        };
        Ok(Split { train, validation, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(most: Option<usize>, fraction: f64) -> SplitOptions {
        let test_set = TestSet::named("rest");
        SplitOptions { max_seq_length: most, val_split_fraction: fraction, test_set, seed: 3 }
    }

    #[test]
    fn every_case_is_in_one_part() {
        let lengths: Vec<usize> = (0..50).map(|case| case * 37 % 101).collect();
        let split = Split::new(&lengths, &options(Some(60), 0.2)).expect("enough cases");
        let fitting = lengths.iter().filter(|length| **length <= 60).count();
        assert_eq!(split.validation.len(), (fitting as f64 * 0.2).round() as usize);
        assert_eq!(split.train.len() + split.validation.len(), fitting);
        let of_test: Vec<usize> = split.test.iter().map(|case| lengths[*case]).collect();
        assert!(of_test.is_sorted() && of_test.iter().all(|length| 60 < *length));
        let mut all = [split.train.clone(), split.validation, split.test].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..50));
        let other = SplitOptions { seed: 4, ..options(Some(60), 0.2) };
        assert_ne!(Split::new(&lengths, &other).expect("enough cases").train, split.train);
    }

    #[test]
    fn too_few_cases_are_refused() {
        let error = Split::new(&[5, 6, 700], &options(Some(5), 0.5)).expect_err("one case");
        assert!(error.to_string().contains("of 3 cases, 1 have at most 5"), "{error}");
        assert!(Split::new(&[], &options(None, 0.0)).is_err());
        let all = Split::new(&[5], &options(None, 0.0)).expect("nothing validates");
        assert_eq!((all.train, all.validation, all.test), (vec![0], vec![], vec![]));
    }
}
