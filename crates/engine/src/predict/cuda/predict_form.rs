//! What makes batches alike: those of one form launch the same kernels over the same memory.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PredictForm {
    /// With those that only fill up.
    pub samples: usize,
    pub tables: Vec<KeysForm>,
}

/// How the keys of a table lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KeysForm {
    /// All slots have one key.
    pub is_one_hot: bool,
    /// Keys have 32 bits.
    pub is_narrow: bool,
}

/// At most an eighth more, from 64 on; few sizes, for each is recorded.
pub(super) fn padded(count: usize) -> usize {
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

    #[test]
    fn sizes_are_rounded_up() {
        for (count, want) in [(1, 1), (3, 4), (9, 16), (32, 32), (65, 96), (600, 640), (8192, 8192)]
        {
            assert_eq!(padded(count), want);
        }
    }
}
