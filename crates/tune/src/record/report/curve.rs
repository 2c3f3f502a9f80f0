//! A line of a chart: values over steps.

/// A step and a value.
pub type Point = (f64, f64);

pub struct Curve {
    pub name: &'static str,
    pub kind: CurveKind,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CurveKind {
    /// One point a step of training.
    Training,
    /// Thin, behind the line that smooths it.
    Noisy,
    Smoothed,
    /// Few points, each marked.
    Validation,
}

impl CurveKind {
    /// Its class in the page's style sheet.
    pub const fn class(self) -> &'static str {
        match self {
            CurveKind::Training => "training",
            CurveKind::Noisy => "noisy",
            CurveKind::Smoothed => "smoothed",
            CurveKind::Validation => "validation",
        }
    }
}

/// Beyond it spans between values could be infinite.
const LARGEST_DRAWN: f64 = 1e100;

/// Whether there is a place for a value in a chart: a loss may be NaN or infinite.
pub fn is_drawable(value: f64) -> bool {
    value.abs() <= LARGEST_DRAWN
}

/// A mean that forgets, over about `window` points, with as much weight on the first ones as on the
/// last. What cannot be drawn is left out of the mean, and of the line.
pub fn smoothed(points: &[Point], window: f64) -> Vec<Point> {
    let kept = 1.0 - 1.0 / window;
    let (mut sum, mut weight) = (0.0, 0.0);
    let smooth = points.iter().map(|&(step, value)| {
        if !is_drawable(value) {
            return (step, f64::NAN);
        }
        sum = sum * kept + value;
        weight = weight * kept + 1.0;
        (step, sum / weight)
    });
    smooth.collect()
}

/// As many points as can be seen apart, of points that go from the left to the right: of each unit
/// of the horizontal axis the first, the lowest, the highest and the last.
pub fn thinned(points: &[Point]) -> Vec<Point> {
    let mut kept = Vec::new();
    for column in points.chunk_by(|left, right| left.0.floor() == right.0.floor()) {
        let height = |at: &usize| column[*at].1;
        let all = 0..column.len();
        let lowest = all.clone().min_by(|a, b| height(a).total_cmp(&height(b)));
        let highest = all.max_by(|a, b| height(a).total_cmp(&height(b)));
        let ends = [Some(0), lowest, highest, Some(column.len() - 1)];
        let mut ends: Vec<usize> = ends.into_iter().flatten().collect();
        ends.sort_unstable();
        ends.dedup();
        kept.extend(ends.into_iter().map(|at| column[at]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(points: &[Point]) -> Vec<f64> {
        points.iter().map(|point| point.1).collect()
    }

    #[test]
    fn a_smoothed_line_starts_at_its_first_value() {
        let points = [(1.0, 4.0), (2.0, 2.0), (3.0, 2.0)];
        // Weights 1/2 and 1, then 1/4, 1/2 and 1.
        assert_eq!(values(&smoothed(&points, 2.0)), [4.0, 4.0 / 1.5, 4.0 / 1.75]);
        let level: Vec<Point> = (0..50).map(|step| (f64::from(step), 3.0)).collect();
        assert!(values(&smoothed(&level, 10.0)).iter().all(|value| (value - 3.0).abs() < 1e-12));
    }

    #[test]
    fn what_is_no_number_leaves_a_gap_in_a_smoothed_line() {
        let points = [(1.0, 4.0), (2.0, f64::NAN), (3.0, f64::INFINITY), (4.0, 4.0)];
        let smooth = values(&smoothed(&points, 2.0));
        assert!(smooth[0] == 4.0 && smooth[1].is_nan() && smooth[2].is_nan() && smooth[3] == 4.0);
    }

    #[test]
    fn thinning_keeps_ends_and_extremes_of_each_column() {
        let column = [(0.0, 2.0), (0.1, 3.0), (0.2, 9.0), (0.3, 3.0), (0.4, 1.0), (0.9, 2.0)];
        let next = [(1.0, 5.0), (1.5, 6.0)];
        let kept = thinned(&[&column[..], &next].concat());
        assert_eq!(values(&kept), [2.0, 9.0, 1.0, 2.0, 5.0, 6.0]);
        let many: Vec<Point> = (0..100_000).map(|at| (f64::from(at) / 1000.0, 1.0)).collect();
        assert!(thinned(&many).len() <= 400);
    }
}
