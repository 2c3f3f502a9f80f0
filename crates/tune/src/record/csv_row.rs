//! Records as lines of CSV files.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::step_record::StepRecord;
use super::validation_record::ValidationRecord;

/// Its fields, in their order, are the columns of a file.
pub trait CsvRow: Serialize + DeserializeOwned {
    const FILE: &'static str;
    const COLUMNS: &'static [&'static str];

    fn step(&self) -> u64;
}

impl CsvRow for StepRecord {
    const FILE: &'static str = "metrics.csv";
    const COLUMNS: &'static [&'static str] = &[
        "step",
        "epoch",
        "loss",
        "learning_rate",
        "gradient_norm",
        "tokens",
        "seconds",
        "peak_memory_bytes",
    ];

    fn step(&self) -> u64 {
        self.step
    }
}

impl CsvRow for ValidationRecord {
    const FILE: &'static str = "validation.csv";
    const COLUMNS: &'static [&'static str] = &["step", "loss", "metric", "cases", "seconds"];

    fn step(&self) -> u64 {
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_columns<R: CsvRow>(row: &R) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(row).expect("it is flat");
        let text = String::from_utf8(writer.into_inner().expect("in memory")).expect("text");
        assert_eq!(text.lines().next(), Some(R::COLUMNS.join(",").as_str()));
    }

    #[test]
    fn columns_are_the_fields_in_their_order() {
        check_columns(&StepRecord {
            step: 1,
            epoch: 0.5,
            loss: 2.0,
            learning_rate: 1e-4,
            gradient_norm: 1.0,
            tokens: 100,
            seconds: 2.0,
            peak_memory_bytes: 1 << 30,
        });
        let (metric, cases) = (Some(0.25), 8);
        check_columns(&ValidationRecord { step: 0, loss: 3.0, metric, cases, seconds: 1.5 });
    }
}
