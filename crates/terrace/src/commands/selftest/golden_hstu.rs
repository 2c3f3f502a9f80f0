//! HSTU layers and models against what their original implementations computed.

use std::path::PathBuf;

use anyhow::{Context, Result};
use terrace_device::DType;
use terrace_model::golden::hstu::check_folder;

use super::set_table::SetTable;
use super::tested_device::{PAGES, TestedDevice};

/// An error when a set is not what it should be; the table is in it.
pub fn check(device: &TestedDevice, folders: &[PathBuf]) -> Result<SetTable> {
    let ops = device.ops(DType::F32, [PAGES])?;
    SetTable::of_folders(folders, "an HSTU model", |folder| {
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
        let table = check(&DEVICE, &[golden_set("hstu")]).unwrap().to_string();
        println!("{table}");
        for set in ["attention", "layers", "stu", "sequential", "ranking", "positions"] {
            assert!(table.lines().any(|line| line.starts_with(set)), "{table}");
        }
    }

    #[test]
    fn wrong_numbers_and_an_empty_folder_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let check = || check(&DEVICE, &[folder.path().into()]).err().expect("it must not pass");
        assert!(format!("{:#}", check()).contains("cannot read "), "{:#}", check());
        let manifest = std::fs::read_to_string(golden_set("hstu").join("manifest.json")).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let cases = manifest["cases"].as_array_mut().expect("a list of cases");
        let mut one =
            cases.iter_mut().find(|case| case["params"]["alpha"].is_f64()).unwrap().take();
        one["params"]["alpha"] = 0.3.into();
        let file = one["file"].as_str().expect("a file").to_owned();
        let one = serde_json::json!({ "cases": [one] });
        std::fs::write(folder.path().join("manifest.json"), one.to_string()).unwrap();
        let to = folder.path().join(&file);
        std::fs::create_dir_all(to.parent().expect("a folder")).unwrap();
        std::fs::copy(golden_set("hstu").join(&file), to).unwrap();
        let error = check().to_string();
        assert!(error.contains("1 golden sets are not") && error.contains("worst: "), "{error}");
    }
}
