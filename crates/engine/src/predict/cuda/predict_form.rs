//! What makes batches alike: those of one form launch the same kernels over the same memory.

use crate::predict::samples::Samples;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PredictForm {
    /// With those that only fill up.
    pub samples: usize,
    /// Tables whose slots all have one key.
    pub one_hot: Vec<bool>,
}

impl PredictForm {
    /// `is_padded`: more samples may be computed than there are.
    pub fn of(samples: &Samples, most: usize, is_padded: bool) -> Self {
        let count = if is_padded { padded(samples.count).min(most) } else { samples.count };
        let one_hot = samples.tables.iter().map(|table| table.is_one_hot()).collect();
        PredictForm { samples: count, one_hot }
    }
}

/// At most an eighth more, from 64 on; few sizes, for each is recorded.
fn padded(count: usize) -> usize {
    match count {
        0..=8 => count.next_power_of_two(),
        9..=64 => count.next_multiple_of(8),
        65..=512 => count.next_multiple_of(32),
        513..=2048 => count.next_multiple_of(128),
        _ => count.next_multiple_of(512),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::samples::TableKeys;

    #[test]
    fn sizes_are_rounded_up_within_what_there_is_room_for() {
        for (count, want) in [(1, 1), (3, 4), (9, 16), (32, 32), (65, 96), (600, 640), (8192, 8192)]
        {
            assert_eq!(padded(count), want);
        }
        let keys = TableKeys { keys: vec![1; 9], offsets: (0..10).collect() };
        let samples = Samples { count: 9, dense: Vec::new(), tables: vec![keys] };
        let form = PredictForm::of(&samples, 12, true);
        assert_eq!(form, PredictForm { samples: 12, one_hot: vec![true] });
        assert_eq!(PredictForm::of(&samples, 12, false).samples, 9);
    }
}
