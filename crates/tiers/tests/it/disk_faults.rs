//! What goes wrong with disks: each is an error that says what to do, or a miss, never a panic.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use terrace_tiers::{DiskTier, DiskTierConfig, PageTier, TierError};

use crate::disk::{FRAME_BYTES, HEADER_BYTES, bytes_in, config, folder};
use crate::pages::{RECORD_BYTES, get, put};

fn frames_path(folder: &Path) -> PathBuf {
    folder.join(format!("pages-{RECORD_BYTES}.frames"))
}

fn directory_path(folder: &Path) -> PathBuf {
    folder.join(format!("pages-{RECORD_BYTES}.directory"))
}

fn filled(folder: &Path, pages: &[u64]) {
    let tier = DiskTier::open(config(folder, 8)).expect("a tier");
    put(&tier, pages).expect("a disk");
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.write_all_at(bytes, at).expect("a disk");
}

/// Opens the folder, and checks which pages are served and that the others are gone for good.
#[track_caller]
fn check(folder: &Path, pages: &[u64], want: &[bool]) {
    for _ in 0..2 {
        let tier = DiskTier::open(config(folder, 8)).expect("a tier");
        assert_eq!(get(&tier, pages).expect("a disk"), want);
        assert_eq!(get(&tier, pages).expect("a disk"), want);
        assert_eq!(tier.usage().records, Some(want.iter().filter(|&&there| there).count()));
        tier.check();
    }
    let tier = DiskTier::open(config(folder, 8)).expect("a tier");
    assert!(put(&tier, pages).expect("a disk").kept.iter().all(|&kept| kept));
    assert!(get(&tier, pages).expect("a disk").iter().all(|&there| there));
}

#[track_caller]
fn check_refused(config: DiskTierConfig, kind: &str, words: &[&str]) {
    let error = DiskTier::open(config).err().expect("refused");
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_missing_folder_is_made_with_all_above_it() {
    let folder = folder();
    let deep = folder.path().join("a/b/c");
    filled(&deep, &[1]);
    check(&deep, &[1], &[true]);
}

#[test]
fn a_file_in_place_of_the_folder_is_refused() {
    let folder = folder();
    let file = folder.path().join("file");
    File::create(&file).expect("a file");
    check_refused(config(&file, 8), "io", &["file", "choose another folder"]);
}

/// Nobody can make a folder there, whatever the user.
#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let words = ["/sys/terrace", "let this user write there"];
    check_refused(config(Path::new("/sys/terrace"), 8), "read_only", &words);
}

#[test]
fn a_budget_without_room_for_a_page_is_refused() {
    let folder = folder();
    let small = DiskTierConfig { budget_bytes: FRAME_BYTES, ..config(folder.path(), 0) };
    check_refused(small, "full", &["12352 bytes", "give it 12416 or more"]);
}

#[test]
fn a_folder_has_one_process_at_a_time() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    check_refused(config(folder.path(), 8), "unavailable", &["in use by another process"]);
    drop(tier);
    check(folder.path(), &[1], &[false]);
}

/// A device that is always full stands in for a full disk.
#[test]
fn a_full_disk_is_an_error_and_the_page_a_miss() {
    let folder = folder();
    filled(folder.path(), &[]);
    std::fs::remove_file(frames_path(folder.path())).expect("a disk");
    symlink("/dev/full", frames_path(folder.path())).expect("a disk");
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    let error = put(&tier, &[1, 2]).expect_err("no space");
    assert!(matches!(&error, TierError::Full(text) if text.contains("make room")), "{error}");
    assert_eq!(get(&tier, &[1, 2]).expect("a disk"), [false, false]);
    assert_eq!(tier.usage().records, Some(0));
    tier.check();
}

#[test]
fn a_torn_frame_is_a_miss_and_is_dropped() {
    let folder = folder();
    filled(folder.path(), &[1, 2, 3]);
    // Zeros, as a power cut leaves blocks that never reached the disk.
    overwrite(&frames_path(folder.path()), 3 * 4096 + 4096, &[0; 4096]);
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    let there = get(&tier, &[1, 2, 3]).expect("a disk");
    assert_eq!(there.iter().filter(|&&there| there).count(), 2);
    assert_eq!(tier.usage().damaged, 1);
    drop(tier);
    check(folder.path(), &[1, 2, 3], &there);
}

/// An entry from before a power cut, the frame from after it.
#[test]
fn a_frame_with_another_page_than_its_entry_says_is_a_miss() {
    let [one, other] = [folder(), folder()];
    filled(one.path(), &[1]);
    filled(other.path(), &[2]);
    std::fs::copy(frames_path(other.path()), frames_path(one.path())).expect("a disk");
    check(one.path(), &[1], &[false]);
}

#[test]
fn entries_that_are_damaged_are_dropped_and_others_stay() {
    let folder = folder();
    for page in 1..=3 {
        filled(folder.path(), &[page]);
    }
    overwrite(&directory_path(folder.path()), HEADER_BYTES + 64 + 40, &[1]);
    check(folder.path(), &[1, 2, 3], &[true, false, true]);
}

#[test]
fn an_entry_in_the_wrong_place_is_dropped() {
    let folder = folder();
    filled(folder.path(), &[1]);
    let bytes = std::fs::read(directory_path(folder.path())).expect("a directory");
    overwrite(&directory_path(folder.path()), 2 * 64, &bytes[64..128]);
    check(folder.path(), &[1], &[true]);
}

#[test]
fn a_directory_cut_in_an_entry_loses_that_entry() {
    let folder = folder();
    for page in 1..=2 {
        filled(folder.path(), &[page]);
    }
    let file = OpenOptions::new().write(true).open(directory_path(folder.path()));
    file.expect("a file").set_len(64 + 64 + 63).expect("a disk");
    check(folder.path(), &[1, 2], &[true, false]);
}

#[test]
fn a_truncated_page_file_loses_what_was_behind_its_end() {
    let folder = folder();
    for page in 1..=3 {
        filled(folder.path(), &[page]);
    }
    let file = OpenOptions::new().write(true).open(frames_path(folder.path()));
    file.expect("a file").set_len(2 * 3 * 4096 - 1).expect("a disk");
    check(folder.path(), &[1, 2, 3], &[true, false, false]);
}

/// While the tier has it open: nothing that is not there is given.
#[test]
fn a_page_file_truncated_by_others_gives_misses() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    put(&tier, &[1, 2]).expect("a disk");
    let file = OpenOptions::new().write(true).open(frames_path(folder.path()));
    file.expect("a file").set_len(0).expect("a disk");
    assert_eq!(get(&tier, &[1, 2]).expect("a disk"), [false, false]);
    assert_eq!(put(&tier, &[1]).expect("a disk").kept, [true]);
    assert_eq!(get(&tier, &[1, 2]).expect("a disk"), [true, false]);
}

#[test]
fn files_of_another_version_are_replaced() {
    for (at, bytes) in [(8, 2u64.to_le_bytes()), (0, *b"whatever"), (16, [1; 8])] {
        let folder = folder();
        filled(folder.path(), &[1, 2, 3]);
        overwrite(&directory_path(folder.path()), at, &bytes);
        let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
        assert_eq!(tier.usage().records, Some(0));
        assert_eq!(bytes_in(folder.path()), HEADER_BYTES);
        drop(tier);
        check(folder.path(), &[1, 2, 3], &[false; 3]);
    }
}

/// Nobody looks at a directory while the file is in use; at the end it is written again.
#[test]
fn a_directory_that_was_cut_in_use_costs_nothing() {
    for bytes in [0, 40, 64, 100, 128] {
        let folder = folder();
        let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
        put(&tier, &[1, 2, 3]).expect("a disk");
        let file = OpenOptions::new().write(true).open(directory_path(folder.path()));
        file.and_then(|file| file.set_len(bytes)).expect("the directory can be cut");
        drop(tier);
        check(folder.path(), &[1, 2, 3], &[true; 3]);
    }
}

#[test]
fn a_header_that_was_damaged_in_use_costs_nothing() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    put(&tier, &[1, 2]).expect("a disk");
    overwrite(&directory_path(folder.path()), 3, b"?");
    drop(tier);
    check(folder.path(), &[1, 2], &[true, true]);
}
