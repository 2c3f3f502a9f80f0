//! Looking keys up, in memory and in files.

use terrace_rocksdb::{RocksDb, RocksError, RocksOptions};

use crate::databases::{get, library, open, options, put};

#[track_caller]
fn check(keys: &[&str], want: &[Option<&str>]) {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("a1", "v1"), ("a3", ""), ("a5", "v5")]);
    let family = db.family("rows").expect("it was made");
    let want: Vec<_> = want.iter().map(|value| value.map(str::to_owned)).collect();
    assert_eq!(get(&family, keys), want, "in memory");
    family.flush().expect("a disk");
    assert_eq!(get(&family, keys), want, "in a file");
    family.compact().expect("a disk");
    assert_eq!(get(&family, keys), want, "in a compacted file");
}

#[test]
fn keys_are_found_in_any_order_and_as_often_as_they_are_asked_for() {
    check(&["a1", "a3", "a5"], &[Some("v1"), Some(""), Some("v5")]);
    check(&["a5", "a1"], &[Some("v5"), Some("v1")]);
    check(&["a5", "a1", "a5", "a5"], &[Some("v5"), Some("v1"), Some("v5"), Some("v5")]);
    check(&["a1", "a1"], &[Some("v1"), Some("v1")]);
}

#[test]
fn missing_keys_are_not_found_and_empty_values_are() {
    check(&["a0", "a2", "a3", "a9"], &[None, None, Some(""), None]);
    check(&["zz"], &[None]);
    check(&["a"], &[None]);
    check(&["a1x"], &[None]);
}

#[test]
fn no_keys_find_nothing() {
    check(&[], &[]);
}

#[test]
fn bytes_that_are_no_whole_keys_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    let family = db.family("default").expect("there is always one");
    for (keys, key_bytes) in [(&b"12345"[..], 2), (b"12", 0), (b"", 0), (b"12", 4)] {
        let result = family.multi_get(keys, key_bytes, &mut |_, _| panic!("nothing is there"));
        assert!(matches!(result, Err(RocksError::InvalidArgument(_))), "{keys:?}: {result:?}");
    }
}

#[test]
fn a_panic_of_the_caller_leaves_the_database_usable() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("a1", "v1"), ("a2", "v2")]);
    let family = db.family("rows").expect("it was made");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        family.multi_get(b"a1a2", 2, &mut |_, _| panic!("on purpose"))
    }));
    assert!(caught.is_err());
    assert_eq!(get(&family, &["a2"]), [Some("v2".to_owned())]);
}

#[test]
fn every_bound_of_memory_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = RocksOptions {
        block_cache_bytes: 1 << 20,
        write_buffer_bytes: 1 << 20,
        max_open_files: Some(64),
        cache_index_and_filter_blocks: true,
        ..options()
    };
    let db = RocksDb::open(&library(), folder.path(), &options).expect("a database");
    let family = db.create_family("rows").expect("a family");
    let capacity = family.property("rocksdb.block-cache-capacity").expect("a name");
    assert_eq!(capacity.as_deref(), Some("1048576"));
    let usage = |name: &str| {
        let usage = db.family(name).expect("it is there").property("rocksdb.block-cache-usage");
        usage.expect("a name").expect("a property").parse::<usize>().expect("a number")
    };
    let before = usage("default");
    put(&db, "rows", &[("k", &"v".repeat(5000))]);
    family.flush().expect("a disk");
    get(&family, &["k"]);
    assert!(usage("default") >= before + 5000, "one cache for all families");
    assert_eq!(family.property("rocksdb.no-such-property"), Ok(None));
    assert!(family.property("zero\0byte").is_err());

    // The rest is in the file in which RocksDB keeps its options.
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let texts = paths.filter(|path| path.to_string_lossy().contains("/OPTIONS-"));
    let text = std::fs::read_to_string(texts.max().expect("the options")).expect("a file");
    for line in [
        "db_write_buffer_size=1048576",
        "max_open_files=64",
        "max_background_jobs=2",
        "cache_index_and_filter_blocks=true",
        "compaction_style=kCompactionStyleLevel",
        "data_block_index_type=kDataBlockBinaryAndHash",
        "memtable_whole_key_filtering=true",
    ] {
        assert!(text.lines().any(|found| found.trim() == line), "no {line} in:\n{text}");
    }
    assert!(text.contains("bloomfilter:10") || text.contains("BuiltinBloomFilter"), "{text}");
}
