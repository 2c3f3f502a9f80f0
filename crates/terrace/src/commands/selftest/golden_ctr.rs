//! Click-through models and their layers against reference results.

use std::path::PathBuf;

use anyhow::{Context, Result};
use terrace_device::DType;
use terrace_model::golden::ctr::check_folder;

use super::set_table::SetTable;
use super::tested_device::{PAGES, TestedDevice};

/// An error when a set is not what it should be; the table is in it.
pub fn check(device: &TestedDevice, folders: &[PathBuf]) -> Result<SetTable> {
    let ops = device.ops(DType::F32, [PAGES])?;
    SetTable::of_folders(folders, "a click-through model", |folder| {
        check_folder(folder, &ops).with_context(|| folder.display().to_string())
    })
}

#[cfg(test)]
mod tests {
    use terrace_testkit::golden_set;

    use super::*;

    const DEVICE: TestedDevice = TestedDevice::Cpu { threads: 1, level: None };

    #[test]
    fn every_set_has_its_line() {
        let folders = ["ctr", "ctr_layers"].map(golden_set);
        let table = check(&DEVICE, &folders).unwrap().to_string();
        println!("{table}");
        let models = ["pooled", "logits", "outputs", "by name"];
        for set in models.into_iter().chain(["layers", "networks", "dense file"]) {
            assert!(table.lines().any(|line| line.starts_with(set)), "{table}");
        }
    }

    #[test]
    fn an_empty_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = check(&DEVICE, &[folder.path().into()]).err().expect("it must not pass");
        assert!(format!("{error:#}").contains("cannot read "), "{error:#}");
    }
}
