//! Which columns of a file are dense features, which are slots, and which is the label.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Positions of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnRoles {
    pub dense: Vec<usize>,
    pub slots: Vec<usize>,
    pub label: Option<usize>,
}

/// As the user names them; empty: not named.
#[derive(Clone, Debug, Default)]
pub struct NamedColumns {
    pub dense: Vec<String>,
    pub slots: Vec<String>,
    pub label: Option<String>,
}

/// What NVTabular writes beside its Parquet files.
#[derive(Deserialize)]
struct NvtMetadata {
    #[serde(default)]
    cats: Vec<NvtColumn>,
    #[serde(default)]
    conts: Vec<NvtColumn>,
    #[serde(default)]
    labels: Vec<NvtColumn>,
}

#[derive(Deserialize)]
struct NvtColumn {
    col_name: String,
}

const METADATA: &str = "_metadata.json";

impl NamedColumns {
    /// What is not named is as NVTabular's `_metadata.json` says, where one is beside the file.
    pub fn completed(mut self, file: &Path) -> Result<Self> {
        let path = file.with_file_name(METADATA);
        let is_whole = !self.dense.is_empty() && !self.slots.is_empty();
        if is_whole || !path.is_file() {
            return Ok(self);
        }
        let text = std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))?;
        let metadata: NvtMetadata = serde_json::from_slice(&text)
            .with_context(|| format!("{path:?} is not what NVTabular writes"))?;
        let names = |columns: Vec<NvtColumn>| columns.into_iter().map(|it| it.col_name).collect();
        if self.dense.is_empty() {
            self.dense = names(metadata.conts);
        }
        if self.slots.is_empty() {
            self.slots = names(metadata.cats);
        }
        self.label = self.label.or(metadata.labels.into_iter().next().map(|it| it.col_name));
        Ok(self)
    }

    /// Where nothing is named, a column called `label` or `click` is the label, and of the others
    /// the dense features come before the slots.
    pub fn find(&self, columns: &[String], dense: usize, slots: usize) -> Result<ColumnRoles> {
        let position = |name: &String| {
            columns.iter().position(|column| column == name).with_context(|| {
                format!("the file has no column {name:?}; it has {}", columns.join(", "))
            })
        };
        let label = match &self.label {
            Some(name) => Some(position(name)?),
            None => columns.iter().position(|name| LABELS.contains(&name.as_str())),
        };
        let others: Vec<usize> = (0..columns.len()).filter(|at| Some(*at) != label).collect();
        let named = |names: &[String]| names.iter().map(position).collect::<Result<Vec<_>>>();
        let is_unnamed = self.dense.is_empty() && self.slots.is_empty();
        let roles = match is_unnamed && others.len() == dense + slots {
            true => ColumnRoles {
                dense: others[..dense].to_vec(),
                slots: others[dense..].to_vec(),
                label,
            },
            false => ColumnRoles { dense: named(&self.dense)?, slots: named(&self.slots)?, label },
        };
        if roles.dense.len() != dense || roles.slots.len() != slots {
            bail!(
                "the model takes {dense} dense features and {slots} slots, and {} and {} columns \
                 are named; name them with --dense-columns and --slot-columns: the file has {}",
                roles.dense.len(),
                roles.slots.len(),
                columns.join(", ")
            );
        }
        Ok(roles)
    }
}

const LABELS: [&str; 2] = ["label", "click"];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn columns_are_taken_in_their_order_where_none_is_named() {
        let roles = NamedColumns::default().find(&names("label,I1,I2,C1"), 2, 1);
        let wanted = ColumnRoles { dense: vec![1, 2], slots: vec![3], label: Some(0) };
        assert_eq!(roles.expect("they are as many"), wanted);
    }

    #[test]
    fn named_columns_may_stand_anywhere() {
        let named =
            NamedColumns { dense: names("b"), slots: names("c,a"), label: Some("d".to_owned()) };
        let roles = named.find(&names("a,b,c,d,e"), 1, 2).expect("all are there");
        assert_eq!(roles, ColumnRoles { dense: vec![1], slots: vec![2, 0], label: Some(3) });
        let error = named.find(&names("a,b,c"), 1, 2).expect_err("d is missing");
        assert!(error.to_string().contains("no column \"d\"; it has a, b, c"), "{error}");
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused_with_its_columns() {
        let error = NamedColumns::default().find(&names("x,y"), 2, 1).expect_err("one is missing");
        assert!(error.to_string().contains("2 dense features and 1 slots"), "{error}");
        assert!(error.to_string().contains("the file has x, y"), "{error}");
    }

    #[test]
    fn nvtabulars_metadata_names_what_the_user_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = r#"{"cats": [{"col_name": "C1", "index": 2}], "conts": [{"col_name": "I1"}],
            "labels": [{"col_name": "y"}], "file_stats": []}"#;
        std::fs::write(folder.path().join(METADATA), text).expect("a file");
        let named = NamedColumns::default().completed(&folder.path().join("part_0.parquet"));
        let roles = named.expect("it is read").find(&names("y,I1,C1"), 1, 1).expect("they fit");
        assert_eq!(roles, ColumnRoles { dense: vec![1], slots: vec![2], label: Some(0) });
    }
}
