//! Tables that are larger than the memory a server may take: they are loaded, served and updated,
//! and memory stays bounded.
//!
//! The server is a child, this test binary asked for one ignored test, so that what is measured is
//! its own. `TERRACE_LARGE_MIB` says how large the table is, `TERRACE_LARGE_MEMORY_MIB` how much
//! memory it may have, resident and mapped together; a long run takes 8192 and 1024.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use terrace_embedding::{KeyKind, LevelKind, MissingRows, ParameterServer};
use terrace_testkit::Rng;

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::served::{config, start, table};

const WIDTH: usize = 64;
const TOPIC: &str = "hps_et.m.t";
const FILES: &str = "TERRACE_LARGE_FILES";
const STORE: &str = "TERRACE_LARGE_STORE";
const BROKERS: &str = "TERRACE_LARGE_BROKERS";
const BATCH: usize = 10_000;
/// 3.5 MB in each partition: the broker keeps 5.
const UPDATED_ROWS: i64 = 50_000;

fn mebibytes(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number of MiB"))
}

fn row_count() -> i64 {
    let bytes = mebibytes("TERRACE_LARGE_MIB", 64) << 20;
    (bytes / (WIDTH as u64 * 4)) as i64
}

fn row(key: i64, version: u32) -> Vec<f32> {
    [(key & 0xff_ffff) as f32, version as f32].repeat(WIDTH / 2)
}

fn write_files(folder: &Path, rows: i64) {
    std::fs::create_dir_all(folder).expect("a folder");
    let file = |name| BufWriter::new(File::create(folder.join(name)).expect("a file"));
    let (mut keys, mut numbers) = (file("key"), file("emb_vector"));
    for key in 0..rows {
        keys.write_all(&key.to_le_bytes()).expect("a disk");
        let bytes: Vec<u8> = row(key, 1).iter().flat_map(|it| it.to_le_bytes()).collect();
        numbers.write_all(&bytes).expect("a disk");
    }
    keys.flush().and_then(|()| numbers.flush()).expect("a disk");
}

#[test]
#[ignore = "it is the child of the next test"]
fn child_that_serves_a_large_table() {
    let text = |name: &str| std::env::var(name).expect("the next test runs this one");
    let folder = tempfile::tempdir().unwrap();
    let levels = json!({
        "volatile_db": null,
        "persistent_db": { "type": text(STORE), "path": folder.path() },
        "update_source": { "type": "kafka", "brokers": text(BROKERS), "poll_timeout_ms": 100 },
    });
    let begun = Instant::now();
    let cache = json!({ "gpucache": true, "gpucacheper": 0.01 });
    let config = config(text(FILES).as_ref(), &levels, &cache);
    let server = start(&config);
    println!("loaded in {:.1} s, {} MiB", begun.elapsed().as_secs_f64(), memory_mib());
    let rows = row_count();
    let mut random = Rng::new(7);
    let mut looked_up = 0;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let keys: Vec<i64> = (0..BATCH).map(|_| random.below(rows as usize) as i64).collect();
        check(&server, &keys, |_| 1);
        looked_up += keys.len();
    }
    println!("looked {looked_up} rows up, {} MiB", memory_mib());
    let updated = UPDATED_ROWS.min(rows / 2);
    println!("\nready for updates");
    wait_until("all updates have come", || server.consumers()[0].1.rows >= updated as u64);
    let some: Vec<i64> = (0..rows).step_by((rows as usize / BATCH).max(1)).collect();
    check(&server, &some, |key| if key < updated { 2 } else { 1 });
    let level = table(&server).levels().level(LevelKind::Persistent).expect("a level");
    let mut scanned = 0;
    let mut each = |keys: &[i64], _: &[f32]| {
        scanned += keys.len();
        Ok(())
    };
    level.store().scan(BATCH, &mut each).expect("a scan");
    assert_eq!(scanned as i64, rows);
    println!("\nmost memory {}", memory_mib());
}

#[track_caller]
fn check(server: &ParameterServer, keys: &[i64], version: impl Fn(i64) -> u32) {
    let mut found = vec![0.0; keys.len() * WIDTH];
    server.look_up(table(server), keys, MissingRows::AsConfigured, &mut found).expect("a look-up");
    for (key, found) in keys.iter().zip(found.chunks_exact(WIDTH)) {
        assert_eq!(found, row(*key, version(*key)), "key {key}");
    }
}

/// The most that was resident at once, files that are mapped among it.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kib >> 10
}

#[test]
fn a_table_larger_than_memory_is_loaded_served_and_updated() {
    let folder = tempfile::tempdir().unwrap();
    let rows = row_count();
    write_files(folder.path(), rows);
    for store in ["embedded", "rocksdb"] {
        let broker = KafkaBroker::start(&[(TOPIC, 4)]);
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["large_tables::child_that_serves_a_large_table", "--exact", "--ignored"])
            .args(["--nocapture", "--test-threads=1"])
            .env(FILES, folder.path())
            .env(STORE, store)
            .env(BROKERS, broker.cluster.bootstrap_servers())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("a child");
        let lines = std::io::BufReader::new(child.stdout.take().expect("its output"));
        let mut most = None;
        for line in std::io::BufRead::lines(lines).map_while(Result::ok) {
            println!("{store}: {line}");
            if line == "ready for updates" {
                publish(&broker, UPDATED_ROWS.min(rows / 2));
            }
            most = line.strip_prefix("most memory ").map(|mib| mib.parse().unwrap()).or(most);
        }
        assert!(child.wait().expect("its end").success(), "{store}");
        let (most, allowed): (u64, _) =
            (most.expect("it got to its end"), mebibytes("TERRACE_LARGE_MEMORY_MIB", 1024));
        assert!(most <= allowed, "{store} took {most} MiB, and {allowed} are allowed");
    }
}

fn publish(broker: &KafkaBroker, rows: i64) {
    let publisher = broker.publisher();
    let keys: Vec<i64> = (0..rows).collect();
    let numbers: Vec<f32> = keys.iter().flat_map(|key| row(*key, 2)).collect();
    publisher.publish_rows(TOPIC, KeyKind::I64, &keys, &numbers, WIDTH).expect("a broker");
    publisher.flush(PATIENCE).expect("a broker");
}
