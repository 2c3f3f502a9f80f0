//! The ends of an axis and the round numbers along it.

pub struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<Tick>,
}

pub struct Tick {
    pub value: f64,
    pub label: String,
}

/// Between two ticks lie 1, 2 or 5 times a power of ten, so that there are about so many spaces.
const SPACES: f64 = 4.0;
/// Of the larger end: where values differ by less they are drawn as if they were the same.
const LEAST_SPAN: f64 = 1e-6;
/// Labels with more digits before or behind the point are written with an exponent.
const DIGITS: (f64, usize) = (1e7, 5);

impl Axis {
    /// From a round number to a round number.
    pub fn rounded(low: f64, high: f64) -> Self {
        let (low, high) = spread(low, high, 0.1);
        let space = Space::of((high - low) / SPACES);
        let first = (low / space.value()).floor() as i64;
        let last = (high / space.value()).ceil() as i64;
        let ticks = space.ticks(first, last);
        let ends = (space.multiple(first), space.multiple(last));
        Axis { low: ends.0, high: ends.1, ticks }
    }

    /// Of whole numbers, from the first to the last.
    pub fn counted(low: u64, high: u64) -> Self {
        let (low, high) = spread(low as f64, high as f64, 1.0);
        let space = Space::of(((high - low) / SPACES).max(1.0));
        let first = (low / space.value()).ceil() as i64;
        let last = (high / space.value()).floor() as i64;
        Axis { low, high, ticks: space.ticks(first, last) }
    }

    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// 0 at the lower end, 1 at the upper.
    pub fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// Ends that differ: equal ones move apart by a share of their size.
fn spread(low: f64, high: f64, share: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > size * LEAST_SPAN {
        return (low, high);
    }
    let apart = if size == 0.0 { 1.0 } else { size * share };
    (low - apart, high + apart)
}

/// `digit` times ten to the power of `exponent`: in decimals, so that labels are exact.
struct Space {
    digit: i64,
    exponent: i32,
}

impl Space {
    /// The smallest that is not below `least`.
    fn of(least: f64) -> Self {
        let exponent = least.log10().floor() as i32;
        let leading = least / Space { digit: 1, exponent }.value();
        let digit = [1, 2, 5].into_iter().find(|digit| leading <= *digit as f64);
        match digit {
            Some(digit) => Space { digit, exponent },
            None => Space { digit: 1, exponent: exponent + 1 },
        }
    }

    fn value(&self) -> f64 {
        self.multiple(1)
    }

    fn multiple(&self, times: i64) -> f64 {
        let decimal = format!("{}e{}", self.digit * times, self.exponent);
        decimal.parse().expect("it is a number")
    }

    fn ticks(&self, first: i64, last: i64) -> Vec<Tick> {
        let (most, decimals) = DIGITS;
        let digits = usize::try_from(-self.exponent).unwrap_or(0);
        let largest = self.multiple(first.abs().max(last.abs()));
        let tick = |times| {
            let value = self.multiple(times);
            let label = match value {
                0.0 => "0".to_owned(),
                value if largest >= most || digits > decimals => format!("{value:e}"),
                value => format!("{value:.digits$}"),
            };
            Tick { value, label }
        };
        (first..=last).map(tick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axis: &Axis, labels: &[&str]) {
        let found: Vec<&str> = axis.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(found, labels);
        let is_inside = |tick: &Tick| (0.0..=1.0).contains(&axis.share(tick.value));
        assert!(axis.ticks.iter().all(is_inside), "{} to {}", axis.low, axis.high);
    }

    #[test]
    fn ticks_stand_at_round_numbers() {
        check(&Axis::rounded(1.83, 3.21), &["1.5", "2.0", "2.5", "3.0", "3.5"]);
        check(&Axis::rounded(0.0, 7900.0), &["0", "2000", "4000", "6000", "8000"]);
        check(&Axis::rounded(0.0, 3e-4), &["0", "0.0001", "0.0002", "0.0003"]);
        check(&Axis::rounded(0.0, 5e-6), &["0", "2e-6", "4e-6", "6e-6"]);
        check(&Axis::rounded(-3.0, 4.0), &["-4", "-2", "0", "2", "4"]);
        check(&Axis::rounded(0.0, 4e9), &["0", "1e9", "2e9", "3e9", "4e9"]);
    }

    #[test]
    fn whole_numbers_have_whole_ticks() {
        check(&Axis::counted(1, 437), &["200", "400"]);
        check(&Axis::counted(1, 3), &["1", "2", "3"]);
        let axis = Axis::counted(1, 437);
        assert_eq!((axis.share(1.0), axis.share(437.0)), (0.0, 1.0));
    }

    #[test]
    fn equal_ends_move_apart() {
        check(&Axis::rounded(0.0, 0.0), &["-1.0", "-0.5", "0", "0.5", "1.0"]);
        check(&Axis::counted(0, 0), &["-1", "0", "1"]);
        assert_eq!(Axis::counted(5, 5).share(5.0), 0.5);
        let rate = Axis::rounded(3e-4, 3e-4);
        assert!((0.3..0.7).contains(&rate.share(3e-4)), "{}", rate.share(3e-4));
        let next = Axis::rounded(1.0, 1.0_f64.next_up());
        assert!(next.ticks.len() < 10 && next.ticks[0].value < next.ticks[1].value);
    }
}
