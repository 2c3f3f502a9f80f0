//! What goes wrong with the files of handles: an error that says what to do, and nothing left.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use terrace_tiers::{HandleError, HandleId, HandleStore, TierError};

use crate::handles::{PAGE_BYTES, check_whole, files, folder, manifest, number_of, open, put};

fn kv_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{}.kv", manifest(number, "", 0).id))
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a disk");
    file.write_all_at(&[byte[0] ^ 1], at).expect("a disk");
}

/// Three handles, of which `damage` hurts the second.
#[track_caller]
fn check_damaged(damage: impl FnOnce(&Path)) {
    let folder = folder();
    let store = open(folder.path());
    for number in 1..=3 {
        let info = put(&store, &manifest(number, &format!("n{number}"), 3)).expect("room");
        store.set_expiry(info.id, Some(1)).expect("there");
    }
    let used_bytes = store.used_bytes();
    drop(store);
    damage(&kv_path(folder.path(), 2));
    for _ in 0..2 {
        let store = open(folder.path());
        let numbers: Vec<_> = store.list().iter().map(|info| number_of(info.id)).collect();
        assert_eq!(numbers, [1, 3]);
        store.list().iter().for_each(|info| check_whole(&store, info, number_of(info.id)));
        assert!(store.used_bytes() <= used_bytes);
        let damaged = files(folder.path()).into_iter().filter(|name| name.ends_with(".damaged"));
        assert_eq!(damaged.count(), 1);
        assert_eq!(files(folder.path()).len(), 5);
    }
}

#[test]
fn damaged_files_are_moved_aside() {
    check_damaged(|path| flip(path, 3));
    check_damaged(|path| flip(path, 20));
    check_damaged(|path| flip(path, 100));
    check_damaged(|path| std::fs::write(path, b"").expect("a disk"));
    let cut = |path: &Path, bytes: i64| {
        let file = OpenOptions::new().write(true).open(path).expect("a file");
        let length = file.metadata().expect("a file").len();
        file.set_len(length.strict_add_signed(bytes)).expect("a disk");
    };
    check_damaged(|path| cut(path, -1));
    check_damaged(|path| cut(path, 1));
    check_damaged(|path| flip(&path.with_extension("json"), 12));
    check_damaged(|path| drop(std::fs::copy(path.with_file_name(file_name(3)), path)));
}

fn file_name(number: u64) -> PathBuf {
    kv_path(Path::new(""), number)
}

/// It may be of a later program, which will want it.
#[test]
fn a_file_of_another_version_is_left_alone() {
    let folder = folder();
    put(&open(folder.path()), &manifest(1, "a", 3)).expect("room");
    let path = kv_path(folder.path(), 1);
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    file.write_all_at(&2u16.to_le_bytes(), 8).expect("a disk");
    let store = open(folder.path());
    assert!(store.list().is_empty());
    assert_eq!(store.used_bytes(), path.metadata().expect("a file").len());
    assert_eq!(files(folder.path()).len(), 1);
}

#[test]
fn what_was_under_way_is_deleted_and_other_files_stay() {
    let folder = folder();
    let id = HandleId([9; 16]);
    for name in [format!("{id}.tmp"), format!("{id}.json.tmp"), format!("{id}.json")] {
        std::fs::write(folder.path().join(name), b"x").expect("a disk");
    }
    std::fs::write(folder.path().join("notes.tmp"), b"x").expect("a disk");
    assert_eq!(open(folder.path()).used_bytes(), 0);
    assert_eq!(files(folder.path()), ["notes.tmp"]);
}

#[test]
fn a_damaged_page_is_an_error_and_no_export() {
    let folder = folder();
    let store = open(folder.path());
    let info = put(&store, &manifest(1, "a", 3)).expect("room");
    flip(&kv_path(folder.path(), 1), info.file_bytes - PAGE_BYTES);
    let error = store.export(info.id, std::io::sink()).expect_err("damaged").to_string();
    assert!(error.contains("page 2 is damaged; remove it and compute it again"), "{error}");
}

/// A device that is always full stands in for a full disk.
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = folder();
    let store = open(folder.path());
    let large = manifest(1, "a", 1000);
    let draft_path = kv_path(folder.path(), 1).with_extension("tmp");
    symlink("/dev/full", &draft_path).expect("a disk");
    let error = put(&store, &large).expect_err("no space");
    let is_full =
        matches!(&error, HandleError::Disk(TierError::Full(text)) if text.contains("make room"));
    assert!(is_full, "{error}");
    assert_eq!(files(folder.path()), [""; 0]);
    assert_eq!(store.used_bytes(), 0);

    let info = put(&store, &manifest(2, "b", 1)).expect("room");
    symlink("/dev/full", folder.path().join(format!("{}.json.tmp", info.id))).expect("a disk");
    let error = store.set_pinned(info.id, true).expect_err("no space");
    assert!(matches!(&error, HandleError::Disk(TierError::Full(_))), "{error}");
    assert_eq!(store.list(), [info]);
    assert_eq!(files(folder.path()).len(), 1);
    store.check();
}

/// Nobody can make files there, whatever the user.
#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let refused = |error: HandleError| {
        let is_read_only = matches!(&error, HandleError::Disk(TierError::ReadOnly(text))
            if text.contains("let this user write there"));
        assert!(is_read_only, "{error}");
    };
    refused(HandleStore::open("/sys/terrace".into(), 1 << 20).err().expect("refused"));
    let store = HandleStore::open("/sys/kernel".into(), 1 << 20).expect("it can be read");
    refused(store.create(&manifest(1, "a", 1)).err().expect("refused"));
    assert_eq!(store.used_bytes(), 0);
}

#[test]
fn a_draft_without_all_its_pages_is_not_committed() {
    let folder = folder();
    let store = open(folder.path());
    let mut draft = store.create(&manifest(1, "a", 2)).expect("room");
    draft.write_page(&[0; PAGE_BYTES as usize]).expect("a page");
    let error = draft.write_page(&[0; 5]).expect_err("short").to_string();
    assert!(error.contains("a page of 5 bytes, and its pages have 9000"), "{error}");
    let error = draft.commit().expect_err("one is missing").to_string();
    assert!(error.contains("1 of 2 pages"), "{error}");
    assert_eq!(files(folder.path()), [""; 0]);
    assert_eq!(store.used_bytes(), 0);
}
