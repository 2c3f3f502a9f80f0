//! Estimates against exact counts, with the same ceiling and the same halvings.

use std::collections::HashMap;

use terrace_testkit::Rng;

use super::FrequencySketch;

/// Uses `uses` contents drawn by `draw`; returns how many of all contents are estimated right, and
/// how many there are. No estimate may be too low.
fn estimated_right(
    capacity: usize,
    uses: usize,
    mut draw: impl FnMut() -> u64,
) -> (usize, usize, u8) {
    let mut sketch = FrequencySketch::new(capacity);
    let mut exact: HashMap<u64, u8> = HashMap::new();
    for use_count in 1..=uses {
        let content = draw();
        let count = exact.entry(content).or_default();
        *count = FrequencySketch::MOST.min(*count + 1);
        let halved = sketch.count(content);
        assert_eq!(halved, use_count.is_multiple_of(capacity * 10));
        if halved {
            exact.values_mut().for_each(|count| *count /= 2);
        }
        assert!(exact[&content] <= sketch.estimate(content), "content {content} is too low");
    }
    let errors = exact.iter().map(|(content, count)| {
        let estimate = sketch.estimate(*content);
        assert!(*count <= estimate, "content {content}: {estimate} for {count}");
        estimate - count
    });
    let errors: Vec<u8> = errors.collect();
    let right = errors.iter().filter(|error| **error == 0).count();
    (right, errors.len(), errors.into_iter().max().unwrap_or(0))
}

#[test]
fn as_many_contents_as_entries_are_counted_almost_exactly() {
    for (seed, capacity) in [(1, 16), (2, 100), (3, 1000), (4, 5000)] {
        let mut rng = Rng::new(seed);
        let draw = || rng.below(capacity) as u64;
        let (right, contents, worst) = estimated_right(capacity, capacity * 25, draw);
        assert!(contents * 98 / 100 <= right, "{right} of {contents}, worst by {worst}");
    }
}

/// Ten times as many contents as entries, some used much more than others.
#[test]
fn skewed_use_of_many_contents_is_seldom_overestimated() {
    let capacity = 1000;
    let mut rng = Rng::new(5);
    let draw = || {
        let (one, two) = (rng.below(100), rng.below(100));
        (one * two) as u64
    };
    let (right, contents, worst) = estimated_right(capacity, capacity * 45, draw);
    assert!(contents * 95 / 100 <= right, "{right} of {contents}, worst by {worst}");
}

/// Each content once, five times as many as there are counters in a row.
#[test]
fn a_scan_leaves_low_estimates() {
    let capacity = 1000;
    let mut next = 0;
    let draw = || {
        next += 1;
        next
    };
    let (_, contents, worst) = estimated_right(capacity, capacity * 20 - 1, draw);
    assert_eq!(contents, capacity * 20 - 1);
    assert!(worst <= 4, "content used once or not at all is estimated {worst} too high");
}

#[test]
fn counters_stop_at_fifteen_and_are_forgotten_by_halves() {
    let mut sketch = FrequencySketch::new(10);
    (0..20).for_each(|_| assert!(!sketch.count(7)));
    assert_eq!((sketch.estimate(7), sketch.estimate(8)), (15, 0));
    let halvings = (0..400).filter(|_| sketch.count(8)).count();
    assert_eq!(halvings, 4, "420 uses of a level of 10");
    assert_eq!(sketch.estimate(7), 0);
}

#[test]
fn a_level_of_nothing_has_a_sketch() {
    let mut sketch = FrequencySketch::new(0);
    assert!((0..9).all(|content| !sketch.count(content)));
    assert!(sketch.count(9));
}
