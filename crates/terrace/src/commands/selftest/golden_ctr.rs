//! Click-through models against reference results.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use terrace_device::DType;
use terrace_model::golden::ctr::check_folder;

use super::set_table::SetTable;
use super::tested_device::{PAGES, TestedDevice};

/// An error when a set is not what it should be; the table is in it.
pub fn check(device: &TestedDevice, folders: &[PathBuf]) -> Result<SetTable> {
    let ops = device.ops(DType::F32, [PAGES])?;
    let mut sets = Vec::new();
    for folder in folders {
        let found = check_folder(folder, &ops).with_context(|| folder.display().to_string())?;
        if found.is_empty() {
            bail!("no golden click-through model in {}", folder.display());
        }
        sets.extend(found);
    }
    SetTable::passed(sets)
}

#[cfg(test)]
mod tests {
    use terrace_testkit::golden_set;

    use super::*;

    const DEVICE: TestedDevice = TestedDevice::Cpu { threads: 1, level: None };

    #[test]
    fn every_set_has_its_line() {
        let table = check(&DEVICE, &[golden_set("ctr")]).unwrap().to_string();
        println!("{table}");
        for set in ["pooled", "logits", "outputs", "by name"] {
            assert!(table.lines().any(|line| line.starts_with(set)), "{table}");
        }
    }

    #[test]
    fn wrong_weights_and_an_empty_folder_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let check = || check(&DEVICE, &[folder.path().into()]).err().expect("it must not pass");
        assert!(format!("{:#}", check()).contains("cannot read "), "{:#}", check());
        let golden = golden_set("ctr");
        let manifest = std::fs::read_to_string(golden.join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let model = &manifest["models"][0];
        let name = model["name"].as_str().expect("a name");
        copy(&golden.join(name), &folder.path().join(name));
        let one = serde_json::json!({ "models": [model] });
        std::fs::write(folder.path().join("manifest.json"), one.to_string()).unwrap();
        let dense = model["dense_file"].as_str().expect("a file");
        let dense = folder.path().join(name).join("1").join(dense);
        let mut weights = std::fs::read(&dense).unwrap();
        // The last number is the bias of the last layer.
        let end = weights.len() - 4;
        weights[end..].copy_from_slice(&1.0f32.to_le_bytes());
        std::fs::write(&dense, weights).unwrap();
        let error = check().to_string();
        assert!(error.contains("golden sets are not") && error.contains("worst: "), "{error}");
    }

    fn copy(from: &std::path::Path, to: &std::path::Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy(&entry.path(), &to),
                // Not as it is: what is read-only could not be written.
                false => std::fs::write(to, std::fs::read(entry.path()).unwrap()).unwrap(),
            }
        }
    }
}
