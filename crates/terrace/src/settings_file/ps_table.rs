//! `[ps]` of a settings file: the parameter server's configuration itself, where `ps = "FILE"`
//! would name it. Its keys are no options, so they are taken out before the others are read.

use std::path::Path;

use toml::{Table, Value};

use super::PS;
use crate::ps_source::{PsSource, json_of};

/// The file without the table, and the table.
pub fn split(mut file: Table, path: &Path) -> Result<(Table, Option<PsSource>), String> {
    let Some(Value::Table(table)) = file.get(PS) else { return Ok((file, None)) };
    let config = json_of(table).map_err(|problem| format!("[{PS}] {problem}"))?;
    file.remove(PS);
    Ok((file, Some(PsSource::Settings { path: path.to_owned(), config })))
}
