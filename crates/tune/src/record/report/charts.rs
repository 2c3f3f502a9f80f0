//! Which charts a report has, from the records of a run.

use super::chart::Chart;
use super::curve::{Curve, CurveKind, Point, smoothed};
use super::memory_unit::MemoryUnit;
use crate::record::step_record::StepRecord;
use crate::record::validation_record::ValidationRecord;

/// A smoothed line looks back over a twentieth of the steps, so that it bends as often in a short
/// run as in a long one.
const SMOOTHED_PART: f64 = 1.0 / 20.0;
/// Over fewer points it would be the line itself.
const LEAST_SMOOTHED: f64 = 2.0;

/// Charts of which nothing was recorded are left out.
pub fn charts(steps: &[StepRecord], validations: &[ValidationRecord]) -> Vec<Chart> {
    let by_step = |value: &dyn Fn(&StepRecord) -> f64| -> Vec<Point> {
        steps.iter().map(|record| (record.step as f64, value(record))).collect()
    };
    let peak = steps.iter().map(|record| record.peak_memory_bytes).max();
    let unit = MemoryUnit::of(peak.unwrap_or(0));
    let memory = by_step(&|record| unit.amount(record.peak_memory_bytes));
    let mut charts = vec![
        loss(by_step(&|record| record.loss), validations),
        metric(validations),
        single("Learning rate", "learning rate", by_step(&|record| record.learning_rate)),
        single("Gradient norm", "gradient norm", by_step(&|record| record.gradient_norm)),
        single("Throughput, tokens/s", "tokens/s", by_step(&StepRecord::tokens_per_second)),
        single(&format!("Peak memory, {}", unit.name), unit.name, memory),
    ];
    charts.retain(|chart| !chart.is_empty());
    charts
}

fn loss(training: Vec<Point>, validations: &[ValidationRecord]) -> Chart {
    let window = training.len() as f64 * SMOOTHED_PART;
    let smooth = (window >= LEAST_SMOOTHED).then(|| smoothed(&training, window));
    let kind = if smooth.is_some() { CurveKind::Noisy } else { CurveKind::Training };
    let smooth = smooth.map(|points| Curve {
        name: "training, smoothed",
        kind: CurveKind::Smoothed,
        points,
    });
    let points = validations.iter().map(|record| (record.step as f64, record.loss)).collect();
    let validation = Curve { name: "validation", kind: CurveKind::Validation, points };
    let mut curves = vec![Curve { name: "training", kind, points: training }];
    curves.extend(smooth);
    curves.extend((!validations.is_empty()).then_some(validation));
    Chart { title: "Loss".to_owned(), floor: None, curves }
}

fn metric(validations: &[ValidationRecord]) -> Chart {
    let point = |record: &ValidationRecord| Some((record.step as f64, record.metric?));
    let points = validations.iter().filter_map(point).collect();
    let curves = vec![Curve { name: "metric", kind: CurveKind::Validation, points }];
    Chart { title: "Validation metric".to_owned(), floor: Some(0.0), curves }
}

/// One line over the steps, above zero.
fn single(title: &str, name: &'static str, points: Vec<Point>) -> Chart {
    let curves = vec![Curve { name, kind: CurveKind::Training, points }];
    Chart { title: title.to_owned(), floor: Some(0.0), curves }
}
