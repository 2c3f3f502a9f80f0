//! Metrics by name, in their order, as recsys-examples prints them.

use std::fmt;

use serde::{Serialize, Serializer};

/// `None` where a metric is not defined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricList {
    values: Vec<(String, Option<f64>)>,
}

impl MetricList {
    pub fn push(&mut self, name: String, value: Option<f64>) {
        self.values.push((name, value));
    }
}

impl fmt::Display for MetricList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.values.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            match value {
                Some(value) => write!(f, "{end}    Metrics.{name}:{value:.6}")?,
                None => write!(f, "{end}    Metrics.{name}:NaN")?,
            }
        }
        Ok(())
    }
}

impl Serialize for MetricList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.values.iter().map(|(name, value)| (name, value)))
    }
}
