//! Which of HugeCTR's releases a configuration was written for.

use serde_json::{Map, Value};

use super::fields::Fields;
use crate::partition::PartitionRule;
use crate::table_tag::TagStyle;

/// What keys a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `volatile_db`, or no level at all; the last release's.
    VolatileDb,
    /// `cpu_memory_db` and `distributed_db`; those of release 3.3.
    TwoLevels,
    /// `db_type`, before 3.3.
    DbType,
    /// A network with an `inference` block; the first ones.
    Network,
}

impl Form {
    pub fn of(top: &Fields<'_>) -> Form {
        if top.has("inference") && !top.has("models") {
            return Form::Network;
        }
        if top.has("db_type") || entries(top).any(|(_, entry)| entry.contains_key("db_type")) {
            return Form::DbType;
        }
        let has_two = top.has("cpu_memory_db") || top.has("distributed_db");
        // The document that has `peristent_db` is of the release with two levels.
        match has_two || (top.has("peristent_db") && !top.has("volatile_db")) {
            true => Form::TwoLevels,
            false => Form::VolatileDb,
        }
    }

    pub fn generation(self) -> Generation {
        match self {
            Form::VolatileDb => Generation::Last,
            Form::TwoLevels | Form::DbType | Form::Network => Generation::Older,
        }
    }
}

/// The model entries of a file that are objects, with their places.
pub fn entries<'a>(
    top: &Fields<'a>,
) -> impl Iterator<Item = (usize, &'a Map<String, Value>)> + use<'a> {
    let entries = top.peek("models").and_then(Value::as_array).into_iter().flatten();
    entries.enumerate().filter_map(|(index, entry)| Some((index, entry.as_object()?)))
}

/// Whose defaults and names count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Last,
    /// Up to 3.3.
    Older,
}

impl Generation {
    pub fn tag_style(self) -> TagStyle {
        match self {
            Generation::Last => TagStyle::Hps,
            Generation::Older => TagStyle::Hctr,
        }
    }

    pub fn partition_rule(self) -> PartitionRule {
        match self {
            Generation::Last => PartitionRule::Mix,
            Generation::Older => PartitionRule::Modulo,
        }
    }

    /// Rows in one call to a database.
    pub fn database_batch(self) -> usize {
        match self {
            Generation::Last => 65_536,
            Generation::Older => 10_000,
        }
    }

    /// Keys that updates come in together.
    pub fn update_batch(self) -> usize {
        match self {
            Generation::Last => 8_192,
            Generation::Older => 1_000,
        }
    }

    /// Messages from one commit to the next.
    pub fn commit_interval(self) -> u32 {
        match self {
            Generation::Last => 32,
            Generation::Older => 2_000,
        }
    }

    /// The share of the device's cache in one step of a refresh. Older files had to say it; their
    /// documentation said 0.1.
    pub fn refresh_share(self) -> f64 {
        match self {
            Generation::Last => 0.0,
            Generation::Older => 0.1,
        }
    }
}
