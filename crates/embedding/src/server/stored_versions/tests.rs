//! Which version of a table is found in which storage.

use super::*;
use crate::key_kind::KeyKind;
use crate::table_spec::TableSpec;
use crate::table_tag::TagStyle;

fn tag() -> TableTag {
    TagStyle::Hps.table_tag("m", "t")
}

/// Slots with the stamp of their files, and when they were served last.
fn stored(versions: &[(u32, &str, u64)]) -> StoredVersions {
    let (key_kind, dim) = (KeyKind::I64, 4);
    let spec = TableSpec { tag: tag(), key_kind, dim, default_value: 0.0 };
    let version = |(slot, stamp, served): &(u32, &str, u64)| {
        let record = TableRecord {
            stamp: Some((*stamp).to_owned()),
            version: Some(format!("hash of {stamp}")),
            is_loaded: !stamp.ends_with('?'),
            served: *served,
            ..TableRecord::new(&spec)
        };
        StoredVersion { slot: *slot, record }
    };
    StoredVersions { tag: tag(), versions: versions.iter().map(version).collect() }
}

#[track_caller]
fn check_slot(versions: &[(u32, &str, u64)], taken: &[u32], stamp: &str, want: u32) {
    let is_taken = |storage: &TableTag| taken.iter().any(|slot| tag().storage(*slot) == *storage);
    assert_eq!(stored(versions).slot_for(stamp, None, &is_taken), want);
}

#[test]
fn a_version_that_is_there_is_found() {
    check_slot(&[(0, "a", 0), (1, "b", 1)], &[], "a", 0);
    check_slot(&[(0, "a", 0), (1, "b", 1)], &[0], "b", 1);
    check_slot(&[(0, "a", 0), (1, "b?", 0)], &[], "b?", 1);
    let is_taken = |_: &TableTag| false;
    let both = stored(&[(0, "a", 2), (1, "b", 1)]);
    assert_eq!(both.slot_for("other times", Some("hash of a"), &is_taken), 0);
    let half = stored(&[(0, "a?", 2), (1, "b", 1)]);
    assert_eq!(half.slot_for("other times", Some("hash of a?"), &is_taken), 1, "it is not whole");
}

#[test]
fn a_new_version_goes_where_it_takes_nothing_that_is_needed() {
    check_slot(&[], &[], "a", 0);
    check_slot(&[(0, "a", 0)], &[], "b", 0);
    check_slot(&[(0, "a", 0)], &[0], "b", 1);
    check_slot(&[(0, "a", 0)], &[0], "a", 1);
    check_slot(&[(0, "a", 1), (1, "b", 2)], &[1], "c", 0);
    check_slot(&[(0, "a", 3), (1, "b", 2)], &[0], "c", 1);
    check_slot(&[(0, "a", 3), (1, "b", 2)], &[], "c", 1);
    check_slot(&[(0, "a", 3), (1, "b", 2)], &[0, 1], "c", 2);
    check_slot(&[(1, "b", 2)], &[1, 0], "c", 2);
    check_slot(&[(1, "b", 2)], &[1], "c", 0);
}

#[test]
fn what_was_served_last_is_read_where_no_files_are() {
    let check = |versions: &[(u32, &str, u64)], stamp: Option<&str>, want: Option<u32>| {
        assert_eq!(stored(versions).served_with(stamp).map(|it| it.slot), want);
    };
    check(&[], Some("a"), None);
    check(&[(0, "a", 0)], Some("b"), Some(0));
    check(&[(0, "a", 1), (1, "b", 2)], None, Some(1));
    check(&[(0, "a", 3), (1, "b", 2)], None, Some(0));
    check(&[(0, "a", 3), (1, "b", 2)], Some("b"), Some(1));
    check(&[(0, "a?", 0), (1, "b", 0)], None, Some(1));
    check(&[(0, "a", 0), (1, "b", 0)], None, Some(0));
}

#[test]
fn two_versions_stay_and_those_that_are_served() {
    let check = |versions: &[(u32, &str, u64)], taken: &[u32], want: &[u32]| {
        let is_taken =
            |storage: &TableTag| taken.iter().any(|slot| tag().storage(*slot) == *storage);
        let want: Vec<TableTag> = want.iter().map(|slot| tag().storage(*slot)).collect();
        assert_eq!(stored(versions).surplus(&is_taken), want);
    };
    check(&[(0, "a", 1), (1, "b", 2)], &[], &[]);
    check(&[(0, "a", 1), (1, "b", 2), (2, "c", 3)], &[2], &[0]);
    check(&[(0, "a", 3), (1, "b", 2), (2, "c", 1)], &[], &[2]);
    check(&[(0, "a", 1), (1, "b", 2), (2, "c", 3)], &[0, 1, 2], &[]);
    check(&[(0, "a", 1), (1, "b", 2), (2, "c", 3), (3, "d", 4)], &[3], &[0, 1]);
}

#[test]
fn a_hash_is_asked_for_only_where_it_can_find_something() {
    let check = |versions: &[(u32, &str, u64)], stamp: &str, want: bool| {
        assert_eq!(stored(versions).needs_hash(stamp, &|_| false), want);
    };
    check(&[], "a", false);
    check(&[(0, "a", 0)], "a", false);
    check(&[(0, "a?", 0)], "b", false);
    check(&[(0, "a", 0)], "b", true);
    check(&[(0, "a", 1), (1, "b", 2)], "b", false);
    assert!(!stored(&[(0, "a", 0)]).needs_hash("b", &|_| true));
}

#[test]
fn serving_is_counted_where_there_is_a_choice() {
    assert_eq!(stored(&[]).next_served(), None);
    assert_eq!(stored(&[(0, "a", 0)]).next_served(), None);
    assert_eq!(stored(&[(0, "a", 0), (1, "b", 4)]).next_served(), Some(5));
}
