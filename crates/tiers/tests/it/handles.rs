//! The store of handles in operation: what is kept, replaced, refused, exported and imported.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use terrace_testkit::Rng;
use terrace_tiers::{
    HandleError, HandleId, HandleInfo, HandleManifest, HandleReader, HandleStore, TableManifest,
};

use crate::disk::bytes_in;

pub const PAGE_BYTES: u64 = 9000;
const BUDGET_BYTES: u64 = 64 << 20;

/// A handle with `pages` pages in two tables, whose bytes follow from its number.
pub fn manifest(number: u64, name: &str, pages: u64) -> HandleManifest {
    let mut id = [0x1d; 16];
    id[..8].copy_from_slice(&number.to_le_bytes());
    let table = |pages: Vec<u64>| {
        let len = pages.last().map_or(0, |page| 16 * page + 5);
        TableManifest { format: vec![1, 2], pages, page_tokens: 16, len }
    };
    HandleManifest {
        id: HandleId(id),
        name: name.to_owned(),
        owner: Some("me".to_owned()),
        created_unix_ms: number,
        expires_unix_ms: None,
        is_pinned: false,
        is_imported: false,
        model: [3; 32],
        arithmetic: vec![4],
        page_bytes: PAGE_BYTES,
        tokens: (0..16 * pages as u32).map(|token| token ^ number as u32).collect(),
        computed: 16 * pages,
        row_kind_ends: vec![pages],
        scaled_end: None,
        cache_salt: String::new(),
        kv_cache: None,
        chunk_ends: vec![pages + 1],
        tables: vec![table((0..pages / 2).collect()), table((7..7 + pages - pages / 2).collect())],
    }
}

pub fn page(number: u64, index: u64) -> Vec<u8> {
    let mut rng = Rng::new(number << 20 | index);
    (0..PAGE_BYTES / 8).flat_map(|_| rng.number().to_le_bytes()).collect()
}

pub fn put(store: &HandleStore, manifest: &HandleManifest) -> Result<HandleInfo, HandleError> {
    let number = number_of(manifest.id);
    let mut draft = store.create(manifest)?;
    for index in 0..manifest.pages() {
        draft.write_page(&page(number, index))?;
    }
    draft.commit()
}

/// The number that a handle was made from.
pub fn number_of(id: HandleId) -> u64 {
    u64::from_le_bytes(id.0[..8].try_into().expect("8 bytes"))
}

/// All of a handle is as it was put.
#[track_caller]
pub fn check_whole(store: &HandleStore, info: &HandleInfo, number: u64) {
    let mut reader = store.open_reader(info.id).expect("a handle");
    let mut want = manifest(number, &info.name, info.pages);
    want.id = info.id;
    want.owner.clone_from(&info.owner);
    want.expires_unix_ms = info.expires_unix_ms;
    want.is_pinned = info.is_pinned;
    want.is_imported = info.is_imported;
    assert_eq!(*reader.manifest(), want);
    let mut read = vec![0; PAGE_BYTES as usize];
    for index in 0..info.pages {
        reader.read_page(&mut read).expect("a page");
        assert!(read == page(number, index), "page {index} of {number}");
    }
    reader.finish().expect("no more");
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

pub fn open(folder: &Path) -> HandleStore {
    let store = HandleStore::open(folder.to_owned(), BUDGET_BYTES).expect("a store");
    store.check();
    store
}

/// Sorted.
pub fn files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder");
    let name = |file: std::fs::DirEntry| file.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = files.map(|file| name(file.expect("a file"))).collect();
    names.sort();
    names
}

#[track_caller]
fn check_names(store: &HandleStore, want: &[&str]) {
    store.check();
    let mut names: Vec<_> = store.list().into_iter().map(|info| info.name).collect();
    names.sort();
    assert_eq!(names, want);
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let folder = folder();
    let store = open(folder.path());
    let sizes = [0, 1, 2, 300, 1200];
    for (number, pages) in sizes.into_iter().enumerate() {
        let info = put(&store, &manifest(number as u64, &format!("n{number}"), pages));
        check_whole(&store, &info.expect("room"), number as u64);
    }
    let before = store.list();
    let used_bytes = store.used_bytes();
    drop(store.create(&manifest(9, "draft", 3)).expect("room"));
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.list(), before);
    assert_eq!(store.used_bytes(), used_bytes);
    assert_eq!(files(folder.path()).len(), sizes.len());
    for info in before {
        check_whole(&store, &info, number_of(info.id));
        assert_eq!(store.get(info.id).expect("there"), info);
        assert_eq!(store.find(&info.name, Some("me")), Some(info.clone()));
        assert_eq!(store.find(&info.name, None), None);
    }
}

#[test]
fn labels_change_and_survive_a_restart() {
    let folder = folder();
    let store = open(folder.path());
    let [first, second] = [(1, "a"), (2, "b")]
        .map(|(number, name)| put(&store, &manifest(number, name, 2)).expect("room").id);
    store.rename(first, "é \"quoted\"").expect("free");
    store.set_expiry(first, Some(77)).expect("there");
    store.set_pinned(first, true).expect("there");
    store.rename(second, "a").expect("free again");
    let error = store.rename(first, "a").expect_err("taken").to_string();
    assert!(error.contains("\"a\" is that of handle 02"), "{error}");
    let error = store.rename(first, "").expect_err("no name").to_string();
    assert!(error.contains("1 to 128 characters"), "{error}");
    let unknown = HandleId([0; 16]);
    assert!(matches!(store.set_pinned(unknown, true), Err(HandleError::Unknown(_))));
    let before = store.list();
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.list(), before);
    let info = store.get(first).expect("there");
    assert_eq!((info.name.as_str(), info.expires_unix_ms), ("é \"quoted\"", Some(77)));
    check_whole(&store, &info, 1);
    store.remove(first).expect("there");
    assert!(matches!(store.remove(first), Err(HandleError::Unknown(_))));
    check_names(&store, &["a"]);
}

#[test]
fn a_second_handle_takes_the_place_of_the_first() {
    let folder = folder();
    let store = open(folder.path());
    let first = put(&store, &manifest(1, "a", 4)).expect("room");
    store.set_expiry(first.id, Some(5)).expect("there");
    let mut reader = store.open_reader(first.id).expect("there");
    let other_owner = HandleManifest { owner: None, ..manifest(2, "a", 4) };
    put(&store, &other_owner).expect("room");
    let second = put(&store, &manifest(3, "a", 2)).expect("room");
    check_names(&store, &["a", "a"]);
    assert_eq!(store.find("a", Some("me")), Some(second.clone()));
    assert_eq!(second.expires_unix_ms, None);
    assert_eq!(files(folder.path()).len(), 2);
    // Who reads the first one reads it to its end.
    for index in 0..4 {
        let mut read = vec![0; PAGE_BYTES as usize];
        reader.read_page(&mut read).expect("a page");
        assert!(read == page(1, index));
    }
}

/// As a process leaves it that ends between the new file and the deletion of the old one.
#[test]
fn of_two_with_one_name_the_newer_stays() {
    let folder = folder();
    let store = open(folder.path());
    let old = put(&store, &manifest(1, "a", 2)).expect("room");
    let path = folder.path().join(format!("{}.kv", old.id));
    let bytes = std::fs::read(&path).expect("a file");
    let new = put(&store, &manifest(2, "a", 2)).expect("room");
    drop(store);
    std::fs::write(&path, bytes).expect("a disk");
    let store = open(folder.path());
    assert_eq!(store.list(), [new]);
    assert_eq!(files(folder.path()).len(), 1);
}

#[test]
fn what_expired_is_removed_unless_it_is_pinned() {
    let folder = folder();
    let store = open(folder.path());
    for (number, expires) in [(1, None), (2, Some(10)), (3, Some(11)), (4, Some(10))] {
        let name = format!("n{number}");
        let manifest = HandleManifest { expires_unix_ms: expires, ..manifest(number, &name, 1) };
        let info = put(&store, &manifest).expect("room");
        store.set_pinned(info.id, number == 4).expect("there");
    }
    let removed = store.remove_expired(10).expect("a disk");
    assert_eq!(removed.into_iter().map(number_of).collect::<Vec<_>>(), [2]);
    check_names(&store, &["n1", "n3", "n4"]);
}

#[test]
fn the_budget_is_hard() {
    let folder = folder();
    let store = open(folder.path());
    let bytes = put(&store, &manifest(1, "a", 8)).expect("room").file_bytes;
    let used_bytes = store.used_bytes();
    assert_eq!(used_bytes, bytes + 4096);
    store.remove(manifest(1, "a", 8).id).expect("there");
    assert_eq!(store.used_bytes(), 0);
    drop(store);

    let store = HandleStore::open(folder.path().to_owned(), 2 * used_bytes - 1).expect("a store");
    let draft = store.create(&manifest(1, "a", 8)).expect("room");
    let error = store.create(&manifest(2, "b", 8)).err().expect("no room");
    assert!(
        matches!(error, HandleError::NoRoom { bytes, used_bytes: used, budget_bytes }
            if bytes == used_bytes && used == used_bytes && budget_bytes == 2 * used_bytes - 1),
        "{error}"
    );
    assert!(matches!(store.create(&manifest(1, "c", 1)).err(), Some(HandleError::Exists(_))));
    drop(draft);
    assert_eq!(store.used_bytes(), 0);
    put(&store, &manifest(2, "b", 8)).expect("room");
    // Until it is committed the one that it replaces is there too.
    assert!(matches!(put(&store, &manifest(3, "b", 8)), Err(HandleError::NoRoom { .. })));
    check_names(&store, &["b"]);
    assert_eq!(files(folder.path()).len(), 1);
}

#[test]
fn a_file_travels_to_another_store() {
    let [here, there] = [folder(), folder()];
    let (from, to) = (open(here.path()), open(there.path()));
    let id = put(&from, &manifest(5, "a", 6)).expect("room").id;
    from.set_pinned(id, true).expect("there");
    from.rename(id, "b").expect("free");
    from.set_expiry(id, Some(99)).expect("there");
    let mut file = Vec::new();
    let bytes = from.export(id, &mut file).expect("a handle");
    assert_eq!(bytes, file.len() as u64);

    let read = || HandleReader::new(&file[..]).expect("a handle");
    assert_eq!(read().manifest().owner, None);
    let info = to.import(read(), Some("you"), None, &mut |_| Ok(())).expect("room");
    let fields = (info.name.as_str(), info.owner.as_deref(), info.expires_unix_ms);
    assert_eq!(fields, ("b", Some("you"), Some(99)));
    assert_eq!((info.is_imported, info.is_pinned, info.id == id), (true, false, false));
    check_whole(&to, &info, 5);
    // The same once more, and under another name.
    let again = to.import(read(), Some("you"), None, &mut |_| Ok(())).expect("room");
    assert_eq!(to.list(), [again]);
    to.import(read(), None, Some("c"), &mut |_| Ok(())).expect("room");
    check_names(&to, &["b", "c"]);
    let error =
        to.import(read(), None, Some("\n"), &mut |_| Ok(())).expect_err("no name").to_string();
    assert!(error.contains("control character"), "{error}");

    for at in [file.len() - 1, file.len() - PAGE_BYTES as usize * 3] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        let reader = HandleReader::new(&damaged[..]).expect("a manifest");
        let error =
            to.import(reader, None, Some("d"), &mut |_| Ok(())).expect_err("damaged").to_string();
        assert!(error.contains("is damaged"), "{error}");
    }
    let reader = HandleReader::new(&file[..file.len() - 1]).expect("a manifest");
    let error = to.import(reader, None, Some("d"), &mut |_| Ok(())).expect_err("torn").to_string();
    assert!(error.contains("torn"), "{error}");
    let longer = [&file[..], b"x"].concat();
    let reader = HandleReader::new(&longer[..]).expect("a manifest");
    let error =
        to.import(reader, None, Some("d"), &mut |_| Ok(())).expect_err("longer").to_string();
    assert!(error.contains("bytes follow"), "{error}");
    check_names(&to, &["b", "c"]);
    assert_eq!(files(there.path()).len(), 2);
}

/// A few random changes and restarts, against a list of names.
fn check_changes(changes: &[(u8, u8, u64)]) {
    let folder = folder();
    let budget_bytes = 150_000;
    let open = || HandleStore::open(folder.path().to_owned(), budget_bytes).expect("a store");
    let mut store = open();
    let mut drafts = Vec::new();
    let mut names: BTreeMap<String, HandleId> = BTreeMap::new();
    for (index, &(kind, name, pages)) in changes.iter().enumerate() {
        let name = format!("n{name}");
        let manifest = manifest(index as u64, &name, pages);
        match (kind, names.get(&name).copied()) {
            (0..4, _) => match put(&store, &manifest) {
                Ok(info) => drop(names.insert(name, info.id)),
                Err(error) => assert!(matches!(error, HandleError::NoRoom { .. }), "{error}"),
            },
            (4, _) => drafts.extend(store.create(&manifest)),
            (5, _) => drop(drafts.pop()),
            (6, Some(id)) => {
                store.remove(id).expect("there");
                names.remove(&name);
            }
            (7, Some(id)) => store.set_expiry(id, Some(index as u64)).expect("there"),
            (8, Some(id)) => match store.rename(id, "new") {
                Ok(()) => {
                    names.remove(&name);
                    names.insert("new".to_owned(), id);
                }
                Err(error) => assert!(matches!(error, HandleError::NameTaken { .. }), "{error}"),
            },
            (9, _) => {
                drafts.clear();
                store = open();
            }
            _ => {}
        }
        store.check();
        assert!(bytes_in(folder.path()) <= store.used_bytes(), "change {index}");
        assert!(store.used_bytes() <= budget_bytes, "change {index}");
        let found: BTreeMap<_, _> =
            store.list().into_iter().map(|info| (info.name, info.id)).collect();
        assert_eq!(found, names, "change {index}");
    }
    store.list().iter().for_each(|info| check_whole(&store, info, number_of(info.id)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn names_and_budget_hold_whatever_is_changed(
        changes in prop::collection::vec((0u8..10, 0u8..4, 0u64..6), 1..30),
    ) {
        check_changes(&changes);
    }
}

/// Threads that put, read, label and remove beside each other.
#[test]
fn many_threads_share_a_store() {
    let folder = folder();
    let store = open(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for round in 0..12 {
                    let number = thread << 8 | round;
                    let name = format!("n{}", rng.below(3));
                    let info = put(store, &manifest(number, &name, 2)).expect("room");
                    // Others may take its place at any time.
                    let _ = store.set_expiry(info.id, Some(number));
                    for info in store.list() {
                        if let Ok(mut reader) = store.open_reader(info.id) {
                            reader.read_page(&mut vec![0; PAGE_BYTES as usize]).expect("whole");
                        }
                    }
                    let _ = store.remove(info.id);
                    store.check();
                }
            });
        }
    });
    assert!(store.list().is_empty() && store.used_bytes() == 0);
    assert_eq!(files(folder.path()), [""; 0]);
}
