//! What is found again, and what is not.

use std::time::Duration;

use super::*;
use crate::fingerprint::{WeightsHash, WeightsHashing};

/// A folder with a model's files and one for hashes.
struct Fixture {
    model: tempfile::TempDir,
    hashes: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture =
            Fixture { model: tempfile::tempdir().unwrap(), hashes: tempfile::tempdir().unwrap() };
        fs::write(fixture.model.path().join("a"), [1; 5000]).unwrap();
        fs::write(fixture.model.path().join("b"), [2; 7000]).unwrap();
        fixture
    }

    fn open(&self) -> Vec<Arc<HostMap>> {
        let open = |name| Arc::new(HostMap::open(&self.model.path().join(name)).unwrap());
        ["a", "b"].map(open).to_vec()
    }

    /// As a start does, with a folder that does not exist yet.
    fn hash(&self) -> WeightsHash {
        let store = HashStore::at(self.hashes.path().join("fingerprints"));
        WeightsHashing::start(self.open(), Some(store)).wait()
    }

    fn entry(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.hashes.path().join("fingerprints")).unwrap();
        let path = entries.next().expect("a hash was kept").unwrap().path();
        assert!(entries.next().is_none(), "one file a model, and nothing half-written");
        path
    }

    /// Writes other hashes into the entry, which are believed if it is.
    fn plant(&self) -> WeightsHash {
        let path = self.entry();
        let mut entry: HashEntry = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        entry.files.iter_mut().for_each(|file| file.sha256 = hex(&[7; 32]));
        fs::write(&path, serde_json::to_vec(&entry).unwrap()).unwrap();
        WeightsHash::of_hashes(&[[7; 32]; 2])
    }
}

#[test]
fn a_hash_is_computed_once() {
    let fixture = Fixture::new();
    let computed = fixture.hash();
    assert_eq!(computed, WeightsHash::of_files(&fixture.open()));
    let planted = fixture.plant();
    assert_eq!(fixture.hash(), planted, "it was not looked up");
}

#[test]
fn a_file_that_has_changed_is_hashed_again() {
    let fixture = Fixture::new();
    fixture.hash();
    fixture.plant();
    let path = fixture.model.path().join("b");
    let later = fs::metadata(&path).unwrap().modified().unwrap() + Duration::from_nanos(1000);
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    assert_eq!(fixture.hash(), WeightsHash::of_files(&fixture.open()), "another time");
    fixture.plant();
    fs::write(&path, [2; 7001]).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    assert_eq!(fixture.hash(), WeightsHash::of_files(&fixture.open()), "another size");
    assert!(fixture.entry().exists());
}

#[test]
fn a_broken_entry_is_replaced() {
    let fixture = Fixture::new();
    let computed = fixture.hash();
    let path = fixture.entry();
    let whole = fs::read(&path).unwrap();
    let damaged = String::from_utf8(whole.clone()).unwrap().replace("sha256\":\"", "sha256\":\"x");
    for broken in [&whole[..whole.len() / 2], b"", b"[]", damaged.as_bytes()] {
        fs::write(&path, broken).unwrap();
        assert_eq!(fixture.hash(), computed);
        assert_eq!(fs::read(&path).unwrap(), whole, "it was written anew");
    }
}

#[test]
fn a_folder_that_cannot_be_written_costs_the_time_only() {
    let fixture = Fixture::new();
    // A file where the folder should be.
    fs::write(fixture.hashes.path().join("fingerprints"), "").unwrap();
    assert_eq!(fixture.hash(), WeightsHash::of_files(&fixture.open()));
}

#[test]
fn content_and_order_decide_not_names() {
    let fixture = Fixture::new();
    let files = fixture.open();
    let swapped: Vec<_> = files.iter().rev().cloned().collect();
    assert_ne!(WeightsHash::of_files(&files), WeightsHash::of_files(&swapped));
    let renamed = fixture.model.path().join("another name");
    fs::copy(fixture.model.path().join("a"), &renamed).unwrap();
    let renamed = vec![Arc::new(HostMap::open(&renamed).unwrap()), Arc::clone(&files[1])];
    assert_eq!(WeightsHash::of_files(&files), WeightsHash::of_files(&renamed));
}
