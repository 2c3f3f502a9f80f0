//! `terrace ps` on tiny tables: what it prints, and its status.

use serde_json::{Value, json};
use terrace_embedding::{
    DatabaseFolder, PartitionRule, PersistentKind, PsConfig, RedisDatabase, RowStore,
};
use terrace_testkit::{ObjectServer, RedisServer};

use crate::ps_tables::{DIM, PsTables, ps, ps_with, row, spec};

const KINDS: [(PersistentKind, &str); 2] =
    [(PersistentKind::RocksDb, "rocksdb"), (PersistentKind::Embedded, "embedded")];

fn keys(count: i64) -> Vec<(i64, f32)> {
    (0..count).map(|key| (key * 3 - 30, 1.0)).collect()
}

fn persistent(kind: &str) -> Value {
    json!({ "persistent_db": { "type": kind, "path": "rows" } })
}

#[test]
fn sizes_are_said_before_anything_is_loaded() {
    let tables = PsTables::new();
    tables.write_table("files", &keys(1000));
    let file = tables.write_ps(&json!({
        "volatile_db": { "type": "hash_map", "num_partitions": 2 },
        "persistent_db": { "type": "rocksdb", "path": "rows" },
    }));
    let report = ps(&["size", "--ps", &file, "--json"]).json();
    let table = &report["tables"][0];
    assert_eq!((&table["rows"], &table["dim"]), (&json!(1000), &json!(DIM)));
    assert_eq!(table["row_bytes"], 1000 * DIM * 4);
    assert_eq!(table["names"], json!([{ "model": "m", "table": "t" }]));
    let cache = table["caches"][0]["device_bytes"].as_u64().expect("bytes");
    assert!((500 * 16..2 * 500 * 32).contains(&cache), "{cache}");
    assert_eq!(report["totals"]["device_bytes"]["0"], cache);
    assert_eq!(report["totals"]["host_bytes"], table["ram"]["bytes_most"]);
    assert!(table["persistent"]["bytes_most"].as_u64() > Some(1000 * 24));
    assert!(!tables.path("rows").exists(), "nothing is made");

    let shown = ps(&["size", "--ps", &file]);
    assert_eq!(shown.code, Some(0), "{}", shown.error);
    assert!(shown.out.contains("hps_et.m.t") && shown.out.contains("In all"), "{}", shown.out);
    let refused = ps(&["size", "--ps", &file, "--device-budget", "1GiB", "--ram-budget", "1GiB"]);
    refused.fails_with(&["placement \"auto\"", "says itself"]);

    let levels = json!({ "placement": "auto", "volatile_db": { "type": "hash_map" } });
    let auto = tables.write_ps(&levels);
    ps(&["size", "--ps", &auto]).fails_with(&["--device-budget 60GiB"]);
    for (device, ram, place) in [("1GiB", "0", "device"), ("0", "1GiB", "ram"), ("0", "0", "disk")]
    {
        let budgets = ["--device-budget", device, "--ram-budget", ram];
        let args = [&["size", "--ps", &auto, "--json"][..], &budgets].concat();
        let report = ps(&args).json();
        assert_eq!(report["tables"][0]["place"], place);
        let notes = report["notes"].to_string();
        assert_eq!(notes.contains("would not start"), place == "disk", "{notes}");
    }
    let file = tables.write_ps(&persistent("embedded"));
    let report = ps(&["size", "--ps", &file, "--json"]).json();
    assert!(report["totals"]["disk_bytes"].as_u64() > Some(64 << 20), "its log: {report}");
    std::fs::remove_dir_all(tables.path("files")).expect("a folder");
    ps(&["size", "--ps", &file]).fails_with(&["hps_et.m.t", "sparse_files"]);
    ps(&["size", "--ps", "none.json"]).fails_with(&["none.json", "No such file"]);
}

#[test]
fn each_level_shows_its_row_and_what_differs() {
    for (kind, name) in KINDS {
        let tables = PsTables::new();
        tables.write_table("files", &keys(100));
        let file = tables.write_ps(&persistent(name));
        let database = tables.database(kind);
        tables.load(&*database);
        let store = database.table(&spec()).expect("a table");
        store.put_many(&[-30, 7777], &[row(-30, 2.5), row(7777, 1.0)].concat()).expect("put");
        drop((store, database));

        let get = |args: &[&str]| ps(&[&["get", "--ps", &file, "--table"], args].concat());
        let report = get(&["m.t", "-30", "-27", "7777", "5", "--json"]).json();
        let level = |key: usize, level: usize| &report["keys"][key]["levels"][level];
        assert_eq!(level(0, 0)["level"], "persistent");
        assert_eq!(level(0, 1)["row"], json!(row(-30, 1.0)));
        let differs = json!({ "from": "files", "numbers": 1, "largest": 1.5 });
        assert_eq!(level(0, 0)["differs"], differs);
        assert_eq!(level(1, 0)["differs"], Value::Null);
        assert_eq!((&level(2, 1)["row"], &level(3, 0)["row"]), (&Value::Null, &Value::Null));

        let shown = get(&["t", "-30", "5"]);
        assert_eq!(shown.code, Some(0), "{}", shown.error);
        for part in ["persistent  -30 2.5 0.5 -1  (1 numbers differ from files", "served as 0.25"] {
            assert!(shown.out.contains(part), "no {part:?} in: {}", shown.out);
        }
        get(&["m.tt", "1"]).fails_with(&["there is no table m.tt; did you mean m.t?"]);
        get(&["other", "1"]).fails_with(&["there are m.t"]);
    }
}

#[test]
fn a_store_that_a_server_has_open_is_said_with_whom_to_ask() {
    let tables = PsTables::new();
    tables.write_table("files", &keys(20));
    let file = tables.write_ps(&persistent("embedded"));
    let database = tables.database(PersistentKind::Embedded);
    let parts = ["is open in another process", "POST /v1/tables/m.t/lookup"];
    let get = ps(&["get", "--ps", &file, "--table", "m.t", "0"]);
    get.fails_with(&parts);
    assert!(get.out.contains("files       0 1 0.5 -1"), "the others are shown: {}", get.out);
    ps(&["verify", "--ps", &file]).fails_with(&["is open in another process"]);
    drop(database);
    let absent = ps(&["get", "--ps", &file, "--table", "m.t", "0"]);
    assert!(absent.code == Some(0) && absent.out.contains("not there"), "{}", absent.error);
}

#[test]
fn versions_are_compared_as_diff_does() {
    let tables = PsTables::new();
    tables.write_table("a", &[(1, 1.0), (2, 1.0), (3, 1.0)]);
    tables.write_table("files", &[(3, 1.0), (2, 2.0), (9, 1.0), (-4, 1.0)]);
    let [a, b] = ["a", "files"].map(|name| tables.text(name));
    let same = ps(&["diff", &a, &a]);
    assert_eq!((same.code, same.error.as_str()), (Some(0), ""));
    let other = ps(&["diff", &a, &b, "--first", "2"]);
    other.fails_with(&["they differ in 4 keys"]);
    for part in [
        "only in A  1\n",
        "only in B  2\n",
        "changed    1\n",
        "equal      1\n",
        "key -4: only in B\nkey 1: only in A\nand 2 keys more",
    ] {
        assert!(other.out.contains(part), "no {part:?} in: {}", other.out);
    }
    let counts: Value = serde_json::from_str(&ps(&["diff", &a, &b, "--json"]).out).expect("JSON");
    assert_eq!((&counts["changed"], &counts["first"][0]), (&json!(1), &json!([-4, "only_in_b"])));
    ps(&["diff", &a, "none"]).fails_with(&["none/key", "key and emb_vector"]);

    let file = tables.write_ps(&persistent("embedded"));
    let database = tables.database(PersistentKind::Embedded);
    tables.load(&*database);
    drop(database);
    let level = ["--ps", &file, "--table", "t", "--level"];
    let check = |folder: &str, name: &str| ps(&[&["diff", folder], &level[..], &[name]].concat());
    let same = check(&b, "persistent");
    assert!(same.code == Some(0) && same.out.contains("equal      4"), "{}", same.error);
    check(&a, "persistent").fails_with(&["they differ in 4 keys"]);
    check(&a, "redis").fails_with(&["no level redis"]);
    let alone = ps(&["diff", &a]);
    assert_eq!(alone.code, Some(2), "{}", alone.error);
}

#[test]
fn every_row_of_files_store_and_redis_is_verified() {
    let server = RedisServer::start(&[]);
    for (kind, name) in KINDS {
        server.command(&["FLUSHALL"]);
        let tables = PsTables::new();
        tables.write_table("files", &keys(500));
        let levels = json!({
            "persistent_db": { "type": name, "path": "rows" },
            "volatile_db": { "type": "redis_cluster", "address": server.address() },
        });
        let file = tables.write_ps(&levels);
        let database = tables.database(kind);
        tables.load(&*database);
        drop(database);
        let config = PsConfig::read(file.as_ref(), 2).expect("a configuration").0;
        let redis = config.redis.as_ref().expect("a level");
        let time = std::time::Duration::from_secs(10);
        let redis = RedisDatabase::connect(redis, PartitionRule::Mix, time).expect("a level");
        let redis = redis.table(&spec());
        redis.put_many(&[-30, -27], &[row(-30, 1.0), row(-27, 1.0)].concat()).expect("put");
        let report = ps(&["verify", "--ps", &file, "--json"]).json();
        let table = &report["tables"][0];
        assert_eq!(
            (&table["persistent_rows"], &table["files"]["equal"]),
            (&json!(500), &json!(500))
        );
        assert_eq!((&table["redis"]["equal"], &table["problems"]), (&json!(2), &json!([])));

        redis.put_many(&[-30, 8], &[row(-30, 3.0), row(8, 1.0)].concat()).expect("put");
        let wrong = ps(&["verify", "--ps", &file]);
        wrong.fails_with(&["1 of 1 tables are not as they should be"]);
        for part in [
            "m.t: 1 rows (keys 8) that Redis has are not in the persistent store",
            "m.t: 1 rows (keys -30) are other ones in Redis than in the persistent store",
        ] {
            assert!(wrong.out.contains(part), "no {part:?} in: {}", wrong.out);
        }
        let shown = ps(&["get", "--ps", &file, "--table", "m.t", "-30"]);
        assert!(shown.out.contains("redis       -30 3"), "{}", shown.out);

        tables.write_table("files", &keys(501));
        let newer = ps(&["verify", "--ps", &file]);
        assert!(
            newer.out.contains("another version than the one that was loaded"),
            "{}",
            newer.out
        );
        assert!(newer.out.contains("has not got 1 rows (keys 1470) of the files"), "{}", newer.out);
    }
    let tables = PsTables::new();
    tables.write_table("files", &keys(5));
    let file = tables.write_ps(&json!({}));
    ps(&["verify", "--ps", &file]).fails_with(&["neither a persistent_db nor Redis"]);
}

#[test]
fn brokers_that_do_not_answer_are_an_error_with_what_arrived() {
    let tables = PsTables::new();
    tables.write_table("old", &[(1, 1.0), (2, 1.0), (3, 1.0)]);
    tables.write_table("new", &[(2, 1.0), (3, 2.0), (4, 1.0)]);
    let [old, new] = ["old", "new"].map(|name| tables.text(name));
    let to = ["publish", "--brokers", "127.0.0.1:1", "--model", "m", "--timeout", "1s"];
    let publish = |args: &[&str]| ps(&[&to[..], args].concat());
    let failed = publish(&["--table", "t", &new, "--since", &old]);
    failed.fails_with(&["0 of 2 rows were acknowledged by hps_et.m.t", "its partitions"]);
    assert!(failed.out.contains("1 rows are new, 1 changed, 1 equal"), "{}", failed.out);
    assert!(failed.out.contains("1 keys are not in the new version"), "{}", failed.out);
    publish(&["--table", "t", &new, "--style", "hctr"]).fails_with(&["of 3 rows", "hctr_et.m.t"]);
    publish(&["--dense", "none.safetensors", "--version", "1"]).fails_with(&["none.safetensors"]);
    publish(&["--dense", &tables.text("old/key"), "--version", "1"]).fails_with(&["hps_dense.m"]);
    for wrong in [&["--table", "t"][..], &[&new], &["--dense", "x"], &[]] {
        assert_eq!(publish(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn stores_are_copied_and_compared_either_way() {
    for ((kind, name), (_, other)) in KINDS.into_iter().zip(KINDS.into_iter().rev()) {
        let tables = PsTables::new();
        tables.write_table("files", &keys(300));
        let database = tables.database(kind);
        tables.load(&*database);
        drop(database);
        let [from, to] = ["rows", "copy"].map(|name| tables.text(name));
        let copied = ps(&["migrate", "--from", &from, "--to", &to]);
        assert_eq!(copied.code, Some(0), "{}", copied.error);
        assert!(copied.out.contains("hps_et.m.t: 300 rows copied and compared"), "{}", copied.out);
        assert!(copied.out.contains(&format!("store of type {other}")), "{}", copied.out);
        let copy = DatabaseFolder::find(tables.path("copy").as_ref()).expect("a database");
        let copy = copy.open_to_read(&[]).expect("a database");
        assert!(copy.record("hps_et.m.t").expect("a record").expect("a record").is_loaded);
        drop(copy);
        let again = ps(&["migrate", "--from", &from, "--to", &to]);
        assert!(again.out.contains("hps_et.m.t: left as it is"), "{}{}", again.out, again.error);
        let own = ps(&["migrate", "--from", &from, "--to", &from, "--to-kind", name]);
        own.fails_with(&["are one folder"]);
        let wrong = ps(&["migrate", "--from", &from, "--to", &to, "--to-kind", name]);
        wrong.fails_with(&[&format!("is a store of type {other} already")]);
    }
    let empty = tempfile::tempdir().expect("a folder");
    let path = empty.path().to_str().expect("plain");
    ps(&["migrate", "--from", path, "--to", "x"]).fails_with(&["no folder of RocksDB"]);
}

#[test]
fn tables_of_an_object_store_are_read_as_those_of_a_disk() {
    let tables = PsTables::new();
    tables.write_table("a", &keys(100));
    let server = ObjectServer::start();
    server.make_bucket("models");
    for file in ["key", "emb_vector"] {
        let bytes = std::fs::read(tables.path("a").join(file)).expect("a file");
        server.put(&format!("models/one/{file}"), &bytes);
    }
    let variables = [
        ("AWS_ENDPOINT_URL", &*server.url()),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
    ];
    let diff = |url: &str| ps_with(&["diff", &tables.text("a"), url], &variables);
    let same = diff("s3://models/one");
    assert_eq!(same.code, Some(0), "{}{}", same.out, same.error);
    diff("s3://models/two").fails_with(&["s3://models/two/key"]);
}
