//! How far found numbers lie from golden ones, at the most.

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LargestDifference {
    /// Infinite where one was not a number.
    pub value: f32,
    /// Where that is; empty while nothing differs.
    pub location: String,
}

impl LargestDifference {
    pub fn note(&mut self, difference: f32, location: impl FnOnce() -> String) {
        let value = if difference.is_nan() { f32::INFINITY } else { difference };
        if self.value < value {
            *self = LargestDifference { value, location: location() };
        }
    }

    /// The larger of both.
    pub fn join(&mut self, other: LargestDifference) {
        if self.value < other.value {
            *self = other;
        }
    }
}
