//! Rows in order, from any key, as they were when the iterator was made.

use crate::databases::{open, put, rest};

#[track_caller]
fn check(from: Option<&str>, want: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("b", "vb"), ("d", "")]);
    let family = db.family("rows").expect("it was made");
    family.flush().expect("a disk");
    put(&db, "rows", &[("a", "va"), ("c", "vc")]);
    let rows = rest(family.iterate(from.map(str::as_bytes)));
    let keys: Vec<_> = rows.iter().map(|(key, _)| key.as_slice()).collect();
    let want: Vec<_> = want.iter().map(|key| key.as_bytes()).collect();
    assert_eq!(keys, want, "from {from:?}");
    for (key, value) in rows {
        let want = if key == b"d" { Vec::new() } else { [b"v", key.as_slice()].concat() };
        assert_eq!(value, want);
    }
}

#[test]
fn rows_come_in_order_from_the_first_that_is_not_below() {
    check(None, &["a", "b", "c", "d"]);
    check(Some(""), &["a", "b", "c", "d"]);
    check(Some("b"), &["b", "c", "d"]);
    check(Some("bb"), &["c", "d"]);
    check(Some("d"), &["d"]);
    check(Some("e"), &[]);
}

#[test]
fn later_writes_are_not_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("a", "1")]);
    let rows = db.family("rows").expect("it was made").iterate(None);
    put(&db, "rows", &[("a", "2"), ("b", "2")]);
    assert_eq!(rest(rows), [(b"a".to_vec(), b"1".to_vec())]);
}
