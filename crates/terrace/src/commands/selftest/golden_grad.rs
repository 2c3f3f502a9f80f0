//! Gradients through selective caches against what their original implementation computed.

use std::path::PathBuf;

use anyhow::Result;
use terrace_device::DType;
use terrace_golden::GoldenFolder;
use terrace_tune::golden::check_folder;

use super::set_table::SetTable;
use super::tested_device::{PAGES, TestedDevice};

/// An error when a set is not what it should be; the table is in it.
pub fn check(device: &TestedDevice, folders: &[PathBuf]) -> Result<SetTable> {
    let ops = device.ops(DType::F32, [PAGES])?;
    SetTable::of_folders(folders, "gradients", |folder| {
        Ok(check_folder(&GoldenFolder::open(folder)?, &ops)?)
    })
}

#[cfg(test)]
mod tests {
    use terrace_testkit::golden_set;

    use super::*;

    const DEVICE: TestedDevice = TestedDevice::Cpu { threads: 1, level: None };

    #[test]
    fn every_set_has_its_line() {
        let table = check(&DEVICE, &[golden_set("kv")]).unwrap().to_string();
        println!("{table}");
        for set in ["grad ", "grad-quant"] {
            assert!(table.lines().any(|line| line.starts_with(set)), "{table}");
        }
    }

    #[test]
    fn another_loss_and_an_empty_folder_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("manifest.json"), "{}").unwrap();
        let check = || check(&DEVICE, &[folder.path().into()]).err().expect("it must not pass");
        assert!(check().to_string().starts_with("no golden run of gradients"), "{}", check());
        let manifest = std::fs::read_to_string(golden_set("kv").join("manifest.json")).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let mut one = manifest["grad/full_lastrec"].take();
        one["average_loss_per_batch"] = false.into();
        one["config"]["norm_eps"] = 1e-2.into();
        let one = serde_json::json!({ "grad/full_lastrec": one });
        std::fs::write(folder.path().join("manifest.json"), one.to_string()).unwrap();
        std::fs::create_dir(folder.path().join("grad")).unwrap();
        for file in ["grad/full_lastrec.safetensors", "grad/full_weights.safetensors"] {
            std::fs::copy(golden_set("kv").join(file), folder.path().join(file)).unwrap();
        }
        let error = check().to_string();
        assert!(error.contains("1 golden sets are not") && error.contains("worst: "), "{error}");
    }
}
