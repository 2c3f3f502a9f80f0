//! Tables from an object store, with a real server of S3's protocol.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use terrace_embedding::{
    KeyKind, LoadError, LoadOutcome, LoadProgress, LocalFile, ModelPath, ObjectSource,
    ObjectSourceConfig, RowDatabase, SparseBatch, SparseFolder, StoredFile, VersionStamp,
    content_hash, load_table,
};
use terrace_testkit::{ObjectServer, Rng, wait_until};

use crate::object_proxy::ObjectProxy;
use crate::persistent_stores::{Kind, open, scanned, spec, tag, versioned_row, versioned_rows};

const DIM: usize = 16;
const KEY_ID: &str = "SHOWN-NOWHERE-ID";
const SECRET: &str = "shown-nowhere-secret";
/// Of the client's window, which is 8 MiB.
const KEYS_OF_TWO_WINDOWS: i64 = 160_000;

fn source(endpoint: &str, more: &[(&str, &str)]) -> ObjectSource {
    let settings = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ];
    source_of(&[&settings, more].concat())
}

fn source_of(settings: &[(&str, &str)]) -> ObjectSource {
    let owned = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let config = ObjectSourceConfig::new(owned.collect());
    ObjectSource::new(ObjectSourceConfig {
        retries: 1,
        retry_time: Duration::from_secs(60),
        ..config
    })
}

fn server() -> ObjectServer {
    let server = ObjectServer::start();
    server.make_bucket("models");
    server
}

fn at(url: &str) -> ModelPath {
    ModelPath::ObjectStore(url.to_owned())
}

fn folder_of(objects: &ObjectSource, url: &str) -> Result<SparseFolder, LoadError> {
    SparseFolder::open_path(&at(url), Some(DIM), objects)
}

/// The files of keys in a version of them.
fn files(keys: &[i64], version: u32) -> [(&'static str, Vec<u8>); 2] {
    let rows = versioned_rows(keys, version, DIM);
    [
        ("key", keys.iter().flat_map(|key| key.to_le_bytes()).collect()),
        ("emb_vector", rows.iter().flat_map(|number| number.to_le_bytes()).collect()),
    ]
}

fn put_table(server: &ObjectServer, prefix: &str, keys: &[i64], version: u32) {
    for (file, bytes) in files(keys, version) {
        server.put(&format!("models/{prefix}/{file}"), &bytes);
    }
}

#[track_caller]
fn check_rows(database: &dyn RowDatabase, keys: &[i64], version: u32) {
    let store = database.table(&spec("t", KeyKind::I64, DIM)).expect("a table");
    let wanted = keys.iter().map(|key| (*key, versioned_row(*key, version, DIM))).collect();
    assert!(scanned(&*store) == wanted, "not the rows of version {version}");
}

fn load(
    database: &dyn RowDatabase,
    folders: &[SparseFolder],
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    load_table(&spec("t", KeyKind::I64, DIM), folders, database, progress)
}

fn questions(server: &ObjectServer, method_and_path: &str) -> usize {
    server.log().lines().filter(|line| line.contains(method_and_path)).count()
}

#[track_caller]
fn check_refused<T>(result: Result<T, LoadError>, words: &[&str]) {
    let text = result.err().expect("refused").to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
    assert!(!text.contains(KEY_ID) && !text.contains(SECRET), "a secret in: {text}");
}

#[test]
fn a_table_is_the_same_from_an_object_store_and_from_a_disk() {
    let (server, disk) = (server(), TempDir::new().unwrap());
    let keys: Vec<i64> = (0..KEYS_OF_TWO_WINDOWS).map(|key| key * 3 - 7).collect();
    put_table(&server, "wdl/1 a", &keys, 4);
    server.put("models/wdl/1 a/slot_id", &vec![0; keys.len() * 8]);
    for (file, bytes) in files(&keys, 4) {
        fs::write(disk.path().join(file), bytes).unwrap();
    }
    let objects = source(&server.url(), &[]);
    let local = SparseFolder::open_path(&ModelPath::Local(disk.path().into()), Some(DIM), &objects);
    let local = local.unwrap();
    let stored = folder_of(&objects, "s3://models/wdl/1 a/").unwrap();
    assert_eq!((stored.count(), stored.dim()), (local.count(), local.dim()));

    let asked = || {
        ["key", "emb_vector"]
            .map(|file| questions(&server, &format!("GET /models/wdl/1%20a/{file} ")))
    };
    let hash = |folder: &SparseFolder| content_hash(std::slice::from_ref(folder), &mut |_| ());
    assert_eq!(hash(&stored).unwrap(), hash(&stored).unwrap());
    assert_eq!(asked(), [0, 0], "the tags of objects stand for their bytes");
    let read = |folder: &SparseFolder, start, rows| {
        let mut batch = SparseBatch::default();
        folder.read(start, rows, KeyKind::I64, &mut batch).unwrap();
        batch
    };
    assert!(read(&stored, 0, keys.len()) == read(&local, 0, keys.len()));
    assert_eq!(asked(), [1, 2], "questions for windows of the files");

    for (start, rows) in [(0, 10), (130_900, 400), (159_990, 100), (50_000, 70_000)] {
        let (found, wanted) = (read(&stored, start, rows), read(&local, start, rows));
        assert!(found == wanted, "{rows} rows from {start}");
    }
}

#[test]
fn every_part_of_an_object_can_be_read() {
    let (server, disk) = (server(), TempDir::new().unwrap());
    let mut rng = Rng::new(7);
    let bytes: Vec<u8> = (0..(17 << 20) + 5).map(|_| rng.number() as u8).collect();
    server.put("models/any", &bytes);
    fs::write(disk.path().join("any"), &bytes).unwrap();
    let objects = source(&server.url(), &[]);
    let stored = objects.open_file("s3://models/any").unwrap();
    let local = LocalFile::open(&disk.path().join("any")).unwrap();
    assert_eq!(stored.bytes(), local.bytes());
    for round in 0..30 {
        let offset = rng.below(bytes.len() + 3) as u64;
        let size = rng.below(if round % 5 == 0 { 12 << 20 } else { 1 << 20 });
        let [mut found, mut wanted] = [vec![0; size], vec![0; size]];
        let is_there = stored.read_at(offset, &mut found).is_ok();
        assert_eq!(is_there, local.read_at(offset, &mut wanted).is_ok(), "{size} at {offset}");
        assert!(!is_there || found == wanted, "{size} bytes at {offset}");
    }
    assert!(stored.read_at(u64::MAX, &mut [0]).is_err());
}

#[test]
fn a_version_is_loaded_once_and_another_takes_its_place() {
    let (mut server, disk) = (server(), TempDir::new().unwrap());
    let objects = source(&server.url(), &[]);
    let keys: Vec<i64> = (0..1_000).collect();
    let load_again = || {
        let database = open(Kind::Embedded, disk.path());
        let folders = [folder_of(&objects, "s3://models/t").unwrap()];
        load(&*database, &folders, &mut |_| ()).unwrap()
    };
    put_table(&server, "t", &keys, 1);
    assert_eq!(load_again(), LoadOutcome::Loaded { rows: 1_000 });
    check_rows(&*open(Kind::Embedded, disk.path()), &keys, 1);
    let asked = questions(&server, "GET /models/t/emb_vector ");
    assert_eq!(load_again(), LoadOutcome::WasThere);
    assert_eq!(questions(&server, "GET /models/t/emb_vector "), asked, "nothing is read again");

    put_table(&server, "t", &keys[..10], 2);
    assert_eq!(load_again(), LoadOutcome::Loaded { rows: 10 });
    check_rows(&*open(Kind::Embedded, disk.path()), &keys[..10], 2);

    // Nobody can say then which version is the newest; what was loaded stays.
    server.kill();
    check_refused(folder_of(&objects, "s3://models/t"), &["s3://models/t/key", "cannot connect"]);
    check_rows(&*open(Kind::Embedded, disk.path()), &keys[..10], 2);
}

#[test]
fn rows_of_two_versions_never_come_together() {
    let server = server();
    let objects = source(&server.url(), &[]);
    let keys: Vec<i64> = (0..KEYS_OF_TWO_WINDOWS).collect();
    put_table(&server, "t", &keys, 1);
    let folder = folder_of(&objects, "s3://models/t").unwrap();
    let mut batch = SparseBatch::default();
    let mut read = |start| folder.read(start, 1_000, KeyKind::I64, &mut batch);
    read(0).unwrap();
    put_table(&server, "t", &keys, 2);
    check_refused(read(150_000), &["s3://models/t/emb_vector", "changed", "load the table again"]);
    check_refused(read(0), &["changed"]);
    for file in ["key", "emb_vector"] {
        server.remove(&format!("models/t/{file}"));
    }
    check_refused(read(0), &["s3://models/t/", "no such object"]);
}

#[test]
fn a_load_of_what_changes_meanwhile_fails_and_the_next_one_begins_anew() {
    let (server, disk) = (server(), TempDir::new().unwrap());
    let objects = source(&server.url(), &[]);
    let parts = [0..500, 500..800].map(|keys: std::ops::Range<i64>| keys.collect::<Vec<_>>());
    let put_all = |version| {
        put_table(&server, "a", &parts[0], version);
        put_table(&server, "b", &parts[1], version);
    };
    put_all(1);
    let database = open(Kind::Embedded, disk.path());
    let folders =
        || ["s3://models/a", "s3://models/b"].map(|url| folder_of(&objects, url).unwrap());
    let loaded = load(&*database, &folders(), &mut |progress| {
        if progress == (LoadProgress::Loaded { rows: 500, of: 800 }) {
            put_all(2);
        }
    });
    check_refused(loaded, &["s3://models/b/", "changed"]);
    assert_eq!(
        load(&*database, &folders(), &mut |_| ()).unwrap(),
        LoadOutcome::Loaded { rows: 800 }
    );
    check_rows(&*database, &parts.concat(), 2);
}

#[test]
fn a_load_goes_on_where_it_was_when_the_server_is_back() {
    let (server, disk) = (server(), TempDir::new().unwrap());
    let proxy = ObjectProxy::start(&server);
    let objects = source(&proxy.url(), &[]);
    let keys: Vec<i64> = (0..900).collect();
    let urls = [0, 1, 2].map(|part| format!("s3://models/{part}"));
    for (part, keys) in keys.chunks(300).enumerate() {
        put_table(&server, &part.to_string(), keys, 1);
    }
    let folders = || urls.each_ref().map(|url| folder_of(&objects, url).unwrap());
    let database = open(Kind::Embedded, disk.path());
    let loaded = load(&*database, &folders(), &mut |progress| {
        if progress == (LoadProgress::Loaded { rows: 300, of: 900 }) {
            proxy.close_after(0);
        }
    });
    check_refused(loaded, &["s3://models/1/key", "the object store", "AWS_ENDPOINT_URL"]);
    check_refused(folder_of(&objects, &urls[0]), &["s3://models/0/key", "the object store"]);
    let record = database.record(&tag("t")).unwrap().expect("a record");
    assert_eq!((record.loaded_rows, record.is_loaded), (300, false));
    assert_eq!(record.stamp, {
        proxy.open();
        Some(VersionStamp::of(&folders()).text)
    });
    drop(database);

    let database = open(Kind::Embedded, disk.path());
    assert_eq!(
        load(&*database, &folders(), &mut |_| ()).unwrap(),
        LoadOutcome::Loaded { rows: 600 }
    );
    check_rows(&*database, &keys, 1);
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again_from_there() {
    let server = server();
    let proxy = Arc::new(ObjectProxy::start(&server));
    let bytes: Vec<u8> = (0..6 << 20).map(|at: u32| (at / 7) as u8).collect();
    server.put("models/any", &bytes);
    let file = source(&proxy.url(), &[]).open_file("s3://models/any").unwrap();
    let mut found = vec![0; bytes.len()];
    proxy.close_after(2 << 20);
    let reopened = Arc::clone(&proxy);
    let reopening = std::thread::spawn(move || {
        wait_until("the connection broke", || reopened.is_closed());
        reopened.open();
    });
    file.read_at(0, &mut found).unwrap();
    reopening.join().unwrap();
    assert!(found == bytes);
    assert_eq!(questions(&server, "GET /models/any "), 2);
}

#[test]
fn objects_that_do_not_add_up_are_refused_as_files_are() {
    let server = server();
    let objects = source(&server.url(), &[]);
    let check = |prefix: &str, objects_of: &[(&str, usize)], words: &[&str]| {
        for (file, bytes) in objects_of {
            server.put(&format!("models/{prefix}/{file}"), &vec![0; *bytes]);
        }
        check_refused(folder_of(&objects, &format!("s3://models/{prefix}")), words);
    };
    let files = "a table's folder has the files key and emb_vector";
    check("none", &[], &["s3://models/none/key: there is no such object", files]);
    check("half", &[("key", 8)], &["s3://models/half/emb_vector: there is no such object", files]);
    check("empty", &[("key", 0), ("emb_vector", 0)], &["s3://models/empty: there are no keys"]);
    check("cut", &[("key", 12), ("emb_vector", 64)], &["s3://models/cut: key has 12 bytes"]);
    check("ragged", &[("key", 16), ("emb_vector", 64)], &["has 64 bytes for 2 keys"]);
    let rows = [("key", 8), ("emb_vector", 64)];
    check("slots", &[rows[0], rows[1], ("slot_id", 4)], &["slot_id has 4 bytes, and 8 belong"]);
    check("meta", &[rows[0], rows[1], ("meta", 9)], &["meta has 9 bytes, and 8 belong"]);
    check_refused(folder_of(&objects, "s3://other/t"), &["s3://other/t/key", "no such bucket"]);
    check_refused(folder_of(&objects, "s3://models/a//b"), &["s3://bucket/path"]);
    server.put("models/fine/key", &[0; 8]);
    server.put("models/fine/emb_vector", &[0; 64]);
    assert_eq!(folder_of(&objects, "s3://models/fine").unwrap().count(), 1);

    server.deny_all();
    let denied = folder_of(&objects, "s3://models/fine");
    check_refused(denied, &["access denied (InvalidAccessKeyId)", "AWS_SECRET_ACCESS_KEY"]);
}

#[test]
fn a_server_that_never_answers_costs_the_time_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let objects = source(&url, &[("AWS_TIMEOUT", "200ms")]);
    check_refused(folder_of(&objects, "s3://models/t"), &["did not answer in time"]);
}

#[test]
fn without_a_login_it_is_said_which_one_was_looked_for() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let role = format!("http://{gone}");
    let settings = [("AWS_REGION", "eu-central-1"), ("AWS_METADATA_ENDPOINT", role.as_str())];
    let words = ["no AWS_ACCESS_KEY_ID is set", "AWS_SKIP_SIGNATURE=true"];
    check_refused(folder_of(&source_of(&settings), "s3://models/t"), &words);
}

#[test]
fn certificates_are_checked() {
    let folder = TempDir::new().unwrap();
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let certificate = write("certificate.pem", certified.cert.pem());
    let key = write("key.pem", certified.signing_key.serialize_pem());
    let server = ObjectServer::start_with(&["-c", &certificate, "-k", &key]);
    let url = format!("https://{}", server.address());
    let unknown = folder_of(&source(&url, &[]), "s3://models/t");
    check_refused(unknown, &["cannot connect", "certificate"]);
    // With the handshake done the server's answer is read.
    let trusting = source(&url, &[("AWS_ALLOW_INVALID_CERTIFICATES", "true")]);
    check_refused(folder_of(&trusting, "s3://models/t"), &["no such bucket"]);
}

#[test]
fn folders_of_this_machine_need_no_object_store() {
    let disk = TempDir::new().unwrap();
    let objects = source("http://127.0.0.1:9", &[]);
    let open =
        |path: &Path| SparseFolder::open_path(&ModelPath::Local(path.into()), None, &objects);
    check_refused(open(&disk.path().join("none")), &["none/key", "No such file"]);
    for (file, bytes) in files(&[1, 2], 1) {
        fs::write(disk.path().join(file), bytes).unwrap();
    }
    assert_eq!(open(disk.path()).unwrap().dim(), DIM);
}
