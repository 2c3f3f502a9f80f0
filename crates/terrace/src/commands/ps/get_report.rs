//! What `terrace ps get` prints.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct GetReport {
    pub table: String,
    /// Its name in databases.
    pub tag: String,
    pub dim: usize,
    pub default_value: f32,
    /// Whether servers have rows in their memory, too.
    pub has_ram: bool,
    pub keys: Vec<KeyReport>,
}

#[derive(Debug, Serialize)]
pub struct KeyReport {
    pub key: i64,
    /// In the order in which a server asks them; the files last.
    pub levels: Vec<FoundRow>,
}

#[derive(Debug, Serialize)]
pub struct FoundRow {
    pub level: LevelName,
    /// `None` where the level has not got it.
    pub row: Option<Vec<f32>>,
    /// From the row of the last level that has one.
    pub differs: Option<Difference>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelName {
    Redis,
    Persistent,
    Files,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub from: LevelName,
    /// How many.
    pub numbers: usize,
    pub largest: f32,
}

/// Of a row, for people.
const NUMBERS_SHOWN: usize = 6;

impl KeyReport {
    pub fn new(key: i64) -> Self {
        KeyReport { key, levels: Vec::new() }
    }

    /// Fills in what differs.
    pub fn compare(&mut self) {
        let Some(last) = self.levels.iter().rfind(|level| level.row.is_some()) else { return };
        let (from, base) = (last.level, last.row.clone().unwrap_or_default());
        for level in &mut self.levels {
            let row = level.row.as_deref().unwrap_or(&base);
            let pairs = row.iter().zip(&base).filter(|(a, b)| a.to_bits() != b.to_bits());
            let apart: Vec<f32> = pairs.map(|(a, b)| (a - b).abs()).collect();
            let largest = apart.iter().copied().fold(0.0, f32::max);
            let numbers = apart.len();
            level.differs = (numbers > 0).then_some(Difference { from, numbers, largest });
        }
    }
}

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LevelName::Redis => "redis",
            LevelName::Persistent => "persistent",
            LevelName::Files => "files",
        })
    }
}

impl fmt::Display for GetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GetReport { table, tag, dim, .. } = self;
        write!(f, "table {table}, {tag} in databases, rows of {dim} numbers")?;
        for key in &self.keys {
            write!(f, "\n\nkey {}", key.key)?;
            key.levels.iter().try_for_each(|level| write!(f, "\n  {level}"))?;
            if key.levels.iter().all(|level| level.row.is_none()) {
                write!(f, "\n  no level here has it: served as {} throughout", self.default_value)?;
            }
        }
        if self.has_ram {
            write!(
                f,
                "\n\nWhat a server has in its memory it says itself: POST /v1/tables/{table}/lookup"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for FoundRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.to_string();
        write!(f, "{level:<12}")?;
        let Some(row) = &self.row else { return f.write_str("not there") };
        let shown: Vec<String> =
            row.iter().take(NUMBERS_SHOWN).map(|number| number.to_string()).collect();
        write!(f, "{}", shown.join(" "))?;
        if row.len() > NUMBERS_SHOWN {
            f.write_str(" ...")?;
        }
        if let Some(Difference { from, numbers, largest }) = self.differs {
            write!(f, "  ({numbers} numbers differ from {from}, by {largest} at most)")?;
        }
        Ok(())
    }
}
