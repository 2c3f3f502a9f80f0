//! Measurements so small that they say nothing about speed.

use clap::Parser;
use serde_json::Value;
use terrace_testkit::RedisCluster;

use super::*;

#[derive(Parser, Debug)]
#[command(args_override_self = true)]
struct Typed {
    #[command(flatten)]
    ps: PsArgs,
}

/// Without a GPU, so that the test is the same on every machine.
fn report(words: &str) -> Result<PsReport> {
    let fixed = "ps --device cpu --repeat 1 --rows 3000 --lookups 2000 --stored-rows 3000 \
                 --stored-lookups 2000 --batch 500,64 --threads 2 --dim 8";
    let words = fixed.split_whitespace().chain(words.split_whitespace());
    measure(&Typed::try_parse_from(words).expect("the command line is right").ps)
}

/// The report as JSON, whose one level has so many rows of each kind, with something beside them.
fn check(words: &str, heading: &str, beside: &str, gets: usize, updates: usize) {
    let report = report(words).unwrap_or_else(|error| panic!("{words}: {error:#}"));
    let json = serde_json::to_value(&report).expect("a report is JSON");
    let [level] = json["levels"].as_array().expect("a list").as_slice() else {
        panic!("one level was asked for: {json}");
    };
    assert!(level["heading"].as_str().is_some_and(|text| text.starts_with(heading)), "{level}");
    let rows = level["rows"].as_array().expect("a list");
    let of = |what: &str| rows.iter().filter(|row| row["what"] == what).collect::<Vec<_>>();
    assert_eq!([of("load").len(), of("get").len(), of("update").len()], [1, gets, updates]);
    for row in of("get") {
        assert_eq!(row["beside"]["name"], beside, "{row}");
        let is_positive = |value: &Value| value.as_f64().is_some_and(|number| number > 0.0);
        assert!(
            is_positive(&row["rows_per_second"]["best"]) && is_positive(&row["share"]),
            "{row}"
        );
    }
    let table = report.to_string();
    for word in [heading, beside, "zipf 1.05", "uniform", "GB/s", "share"] {
        assert!(table.contains(word), "{word} is not in\n{table}");
    }
}

#[test]
fn memory_is_measured_beside_an_array() {
    // Two draws, two sizes of batches, one thread and two.
    check("--only ram", "ram: 3000 rows of 8 numbers", "plain array", 8, 4);
}

#[test]
fn redis_is_measured_beside_a_client_and_left_empty() {
    let cluster = RedisCluster::start();
    let words = format!("--only redis --redis {}", cluster.nodes().join(","));
    check(&words, "redis at 127.0.0.1:", "redis client", 4, 0);
    for server in &cluster.servers {
        assert_eq!(server.command(&["DBSIZE"]).int(), 0);
    }
}

#[test]
fn databases_are_measured_beside_clients_and_their_folders_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = |level: &str| format!("--only {level} --folder {}", folder.path().display());
    check(&words("embedded"), "embedded: 3000 rows of 8 numbers", "fjall client", 4, 0);
    match RocksLibrary::load(&[]) {
        Ok(_) => check(&words("rocksdb"), "rocksdb", "rocksdb client", 4, 0),
        Err(error) => println!("rocksdb is not measured: {error}"),
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}

#[test]
fn what_is_not_there_is_left_out_and_said() {
    let report = report("--rows 100").expect("it runs");
    assert!(report.left_out.iter().any(|line| line.starts_with("redis: name the servers")));
    assert!(report.left_out.contains(&"gpu: --device cpu has none".to_owned()));
    assert!(report.to_string().contains("left out: redis: name the servers"));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (words, why) in [
        ("--only redis", "--only redis: name the servers of a cluster with --redis"),
        ("--only gpu", "--only gpu: --device cpu has none"),
        ("--only redis --redis a:0", "found \"a:0\", allowed: host[:port]"),
        ("--dim 0", "1 or more"),
        ("--batch 10,0", "1 or more"),
        ("--zipf=-1", "--zipf -1 is no exponent"),
        ("--gpu-keys 10", "--gpu-batch 1024 must not be above --gpu-keys 10"),
        ("--only embedded --folder /does/not/exist", "cannot make a folder in /does/not/exist"),
    ] {
        let error = format!("{:#}", report(words).err().expect("refused"));
        assert!(error.contains(why), "{words}: {error}");
    }
}
