//! Pages of keys and values by level, as a table.

use std::fmt;

use serde::Deserialize;

use crate::byte_size::ByteSize;

/// A level as a server reports it.
#[derive(Deserialize)]
pub struct Level {
    level: String,
    pages_in_use: Option<u64>,
    pages_cached: Option<u64>,
    pages_total: Option<u64>,
    used_bytes: Option<u64>,
    budget_bytes: Option<u64>,
}

pub struct LevelTable<'a>(pub &'a [Level]);

impl fmt::Display for LevelTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["level", "in use", "cached", "pages", "used", "budget"];
        let [level, in_use, cached, pages, used, budget] = header;
        write!(f, "{level:<8}{in_use:>10}{cached:>10}{pages:>10}{used:>12}{budget:>12}")?;
        for row in self.0 {
            let count = |pages: Option<u64>| pages.map_or_else(|| "-".into(), |it| it.to_string());
            let bytes = |bytes: Option<u64>| {
                bytes.map_or_else(|| "-".into(), |it| ByteSize(it as usize).to_string())
            };
            let [in_use, cached, pages] =
                [row.pages_in_use, row.pages_cached, row.pages_total].map(count);
            let [used, budget] = [row.used_bytes, row.budget_bytes].map(bytes);
            let level = &row.level;
            write!(f, "\n{level:<8}{in_use:>10}{cached:>10}{pages:>10}{used:>12}{budget:>12}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_a_level_is_a_dash() {
        let json = r#"[{"level": "device", "pages_in_use": 3, "pages_cached": 40,
            "pages_total": 64, "used_bytes": null, "budget_bytes": null},
            {"level": "disk", "pages_in_use": null, "pages_cached": 7, "pages_total": null,
            "used_bytes": 2097152, "budget_bytes": 1073741824}]"#;
        let levels: Vec<Level> = serde_json::from_str(json).expect("levels");
        let want = "\
level       in use    cached     pages        used      budget
device           3        40        64           -           -
disk             -         7         -     2.0 MiB     1.0 GiB";
        assert_eq!(LevelTable(&levels).to_string(), want);
    }
}
