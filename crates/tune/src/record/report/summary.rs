//! A run in a few numbers.

use super::memory_unit::MemoryUnit;
use super::short_number::short_number;
use crate::record::step_record::StepRecord;
use crate::record::validation_record::ValidationRecord;

/// Names and values; none of a run without steps.
pub fn summary(
    steps: &[StepRecord],
    validations: &[ValidationRecord],
) -> Vec<(&'static str, String)> {
    let Some(last) = steps.last() else { return Vec::new() };
    let tokens: u64 = steps.iter().map(|record| record.tokens).fold(0, u64::saturating_add);
    let seconds: f64 = steps.iter().map(|record| record.seconds).sum();
    let peak = steps.iter().map(|record| record.peak_memory_bytes).max().unwrap_or(0);
    let unit = MemoryUnit::of(peak);
    let mut rows = vec![
        ("steps", format!("{} ({} epochs)", last.step, short_number(last.epoch))),
        ("tokens", tokens.to_string()),
        ("time in steps", clock(seconds)),
        ("tokens/s", short_number(tokens as f64 / seconds)),
        ("last training loss", short_number(last.loss)),
    ];
    let validated = validations.iter().filter(|record| !record.loss.is_nan());
    if let Some(best) = validated.min_by(|a, b| a.loss.total_cmp(&b.loss)) {
        let loss = format!("{} after step {}", short_number(best.loss), best.step);
        rows.push(("lowest validation loss", loss));
    }
    rows.push(("peak memory", format!("{} {}", short_number(unit.amount(peak)), unit.name)));
    rows
}

/// Hours, minutes and seconds.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f64) -> StepRecord {
        StepRecord {
            step,
            epoch: step as f64 / 2.0,
            loss,
            learning_rate: 1e-4,
            gradient_norm: 1.0,
            tokens: 1000,
            seconds: 1900.0,
            peak_memory_bytes: step << 29,
        }
    }

    fn validation(step: u64, loss: f64) -> ValidationRecord {
        ValidationRecord { step, loss, metric: None, cases: 4, seconds: 1.0 }
    }

    #[test]
    fn a_run_is_summed_up() {
        let validations = [validation(0, f64::NAN), validation(1, 2.5), validation(2, 2.75)];
        let rows = summary(&[step(1, 3.0), step(2, 2.0), step(3, 1.5)], &validations);
        let wanted = [
            ("steps", "3 (1.500 epochs)"),
            ("tokens", "3000"),
            ("time in steps", "1:35:00"),
            ("tokens/s", "0.5263"),
            ("last training loss", "1.500"),
            ("lowest validation loss", "2.500 after step 1"),
            ("peak memory", "1.500 GiB"),
        ];
        assert!(rows.iter().map(|(name, value)| (*name, value.as_str())).eq(wanted), "{rows:?}");
        assert!(summary(&[], &validations).is_empty());
    }
}
