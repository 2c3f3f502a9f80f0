//! The learning rate by step: up in a line, then down along a cosine to 0.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub warmup_steps: u64,
    pub steps: u64,
}

impl Schedule {
    /// Warm-up is a part of all steps.
    pub fn with_fraction(steps: u64, warmup_fraction: f64) -> Self {
        Schedule { warmup_steps: (steps as f64 * warmup_fraction) as u64, steps }
    }

    /// What the learning rate is multiplied by at a step, from 0 on.
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.warmup_steps {
            return (step + 1) as f64 / self.warmup_steps as f64;
        }
        let rest = (self.steps - self.warmup_steps.min(self.steps)).max(1) as f64;
        let done = ((step - self.warmup_steps) as f64 / rest).min(1.0);
        0.5 * (1.0 + (std::f64::consts::PI * done).cos())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use terrace_testkit::golden_set;

    use super::*;

    #[test]
    fn factors_are_pytorchs() {
        let path = golden_set("tune").join("manifest.json");
        let about: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for case in about["schedules"].as_array().expect("schedules") {
            let count = |key: &str| case[key].as_u64().expect("a count");
            let schedule = Schedule { warmup_steps: count("warmup"), steps: count("steps") };
            for (step, want) in case["factors"].as_array().expect("factors").iter().enumerate() {
                let (got, want) = (schedule.factor(step as u64), want.as_f64().expect("a factor"));
                assert!((got - want).abs() <= 1e-9, "{schedule:?}, {step}: {got} is not {want}");
            }
        }
    }

    #[test]
    fn no_step_has_no_number() {
        for warmup_steps in [0, 1, 5] {
            for steps in [0, 1, 5] {
                let schedule = Schedule { warmup_steps, steps };
                assert!((0..9).all(|step| (0.0..=1.0).contains(&schedule.factor(step))));
            }
        }
        assert_eq!(Schedule::with_fraction(20, 0.15).warmup_steps, 3);
    }
}
