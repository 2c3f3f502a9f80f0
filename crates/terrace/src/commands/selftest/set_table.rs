//! What was found of sets of golden data, line by line.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use terrace_golden::SetFindings;

pub struct SetTable {
    sets: Vec<SetFindings>,
}

impl SetTable {
    /// What `check` finds in folders, each of which has a run of `what`.
    pub fn of_folders(
        folders: &[PathBuf],
        what: &str,
        mut check: impl FnMut(&Path) -> Result<Vec<SetFindings>>,
    ) -> Result<SetTable> {
        let mut sets = Vec::new();
        for folder in folders {
            let found = check(folder)?;
            if found.is_empty() {
                bail!("no golden run of {what} in {}", folder.display());
            }
            sets.extend(found);
        }
        SetTable::passed(sets)
    }

    /// An error when a set is not what it should be; the table is in it.
    fn passed(sets: Vec<SetFindings>) -> Result<SetTable> {
        let table = SetTable { sets };
        let wrong = table.sets.iter().filter(|set| !set.passed()).count();
        if wrong > 0 {
            bail!("{wrong} golden sets are not what they should be\n{table}");
        }
        Ok(table)
    }
}

impl fmt::Display for SetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["set", "cases", "numbers", "largest difference"];
        write!(f, "{:<10} {:>5} {:>8} {:>18}", header[0], header[1], header[2], header[3])?;
        self.sets.iter().try_for_each(|set| write!(f, "\n{set}"))
    }
}
