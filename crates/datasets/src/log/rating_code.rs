//! Ratings as actions.

/// What the number of an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatingCode {
    /// Classes from 0 on, of 1 to 5 stars.
    Stars,
    /// Classes from 0 on, of 0.5 to 5 stars.
    HalfStars,
    /// Bits, as tasks: of 1 to 5 stars, whether they are at least 3, at least 4, and 5.
    StarBits,
}

/// Of all.
const MOST_STARS: f64 = 5.0;

impl RatingCode {
    pub fn expected(self) -> &'static str {
        match self {
            RatingCode::Stars | RatingCode::StarBits => "a rating from 1 to 5",
            RatingCode::HalfStars => "a rating from 0.5 to 5",
        }
    }

    /// The action of `3` or `3.5`.
    pub fn action(self, field: &[u8]) -> Option<u8> {
        let rating: f64 = std::str::from_utf8(field).ok()?.trim().parse().ok()?;
        let steps_per_star = if self == RatingCode::HalfStars { 2.0 } else { 1.0 };
        let steps = rating * steps_per_star;
        let is_step = steps.fract() == 0.0 && (1.0..=MOST_STARS * steps_per_star).contains(&steps);
        is_step.then(|| match (self, steps as u8) {
            (RatingCode::StarBits, stars) => (1 << stars.saturating_sub(2)) - 1,
            (_, steps) => steps - 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let whole = |field: &str| RatingCode::Stars.action(field.as_bytes());
        assert_eq!(["1", "5", "5.0"].map(whole), [Some(0), Some(4), Some(4)]);
        assert_eq!(["0", "6", "3.5", "", "x", "nan", "-1"].map(whole), [None; 7]);
        let half = |field: &str| RatingCode::HalfStars.action(field.as_bytes());
        assert_eq!(["0.5", "3.5", "5.0"].map(half), [Some(0), Some(6), Some(9)]);
        assert_eq!(["0.0", "0.25", "5.5", "inf"].map(half), [None; 4]);
    }

    #[test]
    fn bits() {
        let bits = |field: &str| RatingCode::StarBits.action(field.as_bytes());
        let want = [Some(0), Some(0), Some(0b1), Some(0b11), Some(0b111)];
        assert_eq!(["1", "2", "3", "4", "5"].map(bits), want);
        assert_eq!(["0", "6", "3.5"].map(bits), [None; 3]);
    }
}
