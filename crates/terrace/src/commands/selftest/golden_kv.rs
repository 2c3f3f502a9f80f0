//! Selective KV caches against what their original implementation computed.

use std::path::PathBuf;

use anyhow::Result;
use terrace_cache::golden::check_folder;
use terrace_device::DType;
use terrace_engine::DeviceChoice;
use terrace_golden::GoldenFolder;

use super::set_table::SetTable;
use super::tested_device::{PAGES, TestedDevice};
use super::{golden_models, golden_ropes};

/// An error when a set is not what it should be; the table is in it.
pub fn check(device: &TestedDevice, choice: DeviceChoice, folders: &[PathBuf]) -> Result<SetTable> {
    let ops = device.ops(DType::F32, [PAGES])?;
    SetTable::of_folders(folders, "a cache", |folder| {
        let mut found = check_folder(folder, &ops)?;
        let golden = GoldenFolder::open(folder)?;
        let ropes = golden_ropes::check(&golden, &ops)?;
        let models = golden_models::check(&golden, choice, device.threads())?;
        found.extend([ropes, models].into_iter().filter(|set| set.cases > 0));
        Ok(found)
    })
}

#[cfg(test)]
mod tests {
    use terrace_testkit::golden_set;

    use super::*;

    const DEVICE: TestedDevice = TestedDevice::Cpu { threads: 1, level: None };

    #[test]
    fn every_set_has_its_line() {
        let table = check(&DEVICE, DeviceChoice::Cpu, &[golden_set("kv")]).unwrap().to_string();
        println!("{table}");
        for set in ["policy", "smart", "attention", "quant", "rope", "model"] {
            assert!(table.lines().any(|line| line.starts_with(set)), "{table}");
        }
    }

    #[test]
    fn wrong_numbers_and_an_empty_folder_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().into()];
        let check = || check(&DEVICE, DeviceChoice::Cpu, &folders).err().expect("it must not pass");
        assert!(check().to_string().starts_with("cannot read "), "{}", check());
        let manifest = std::fs::read_to_string(golden_set("kv").join("manifest.json")).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let mut one = manifest["attention/mha"].take();
        one["scale"] = 0.3.into();
        let one = serde_json::json!({ "attention/mha": one });
        std::fs::write(folder.path().join("manifest.json"), one.to_string()).unwrap();
        let file = "attention/mha.safetensors";
        std::fs::create_dir(folder.path().join("attention")).unwrap();
        std::fs::copy(golden_set("kv").join(file), folder.path().join(file)).unwrap();
        let error = check().to_string();
        assert!(error.contains("1 golden sets are not") && error.contains("worst: "), "{error}");
    }
}
