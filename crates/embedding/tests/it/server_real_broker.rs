//! A server against a real broker, which keeps its log in memory: starts by time, commits and
//! restarts without anything between the two.
//!
//! `TERRACE_TEST_BROKER` names the program `tansu`; `tools/torture.py parameter-servers` builds it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use terrace_embedding::{
    KeyKind, ParameterServer, PartitionRule, UpdatePublisher, UpdatePublisherConfig,
};
use terrace_testkit::free_port;

use crate::kafka_broker::{PATIENCE, wait_until};
use crate::served::{DIM, config, rows, start, versions, write_files};
use crate::served_feed::{TOPIC, own, set_time, update_source, wait_until_at_end};

struct RealBroker {
    process: Child,
    address: String,
}

impl RealBroker {
    fn start() -> Self {
        let program = std::env::var("TERRACE_TEST_BROKER").expect("a program that is a broker");
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("tcp://{address}");
        let mut process = Command::new(&program);
        process.args(["broker", "--listener-url", &url, "--advertised-listener-url", &url]);
        process.args(["--storage-engine", "memory://tansu/"]);
        let process = process.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let broker = RealBroker { process: process.expect("a broker"), address };
        wait_until("it makes a topic", || {
            let mut make = Command::new(&program);
            make.args(["topic", "create", TOPIC, "--broker", &url, "--partitions", "2"]);
            let made = make.stdout(Stdio::null()).stderr(Stdio::null()).status();
            made.expect("a broker").success()
        });
        broker
    }
}

impl Drop for RealBroker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

struct Setup {
    broker: RealBroker,
    publisher: UpdatePublisher,
    folder: tempfile::TempDir,
}

impl Setup {
    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    fn publish(&self, keys: &[i64], version: u32) {
        let rows = rows(keys, version);
        self.publisher.publish_rows(TOPIC, KeyKind::I64, keys, &rows, DIM).expect("a broker");
        self.publisher.flush(PATIENCE).expect("a broker");
    }

    fn start(&self) -> ParameterServer {
        let levels = json!({
            "volatile_db": null,
            "persistent_db": { "type": "embedded", "path": self.folder.path().join("db") },
            "update_source": update_source(&self.broker.address),
        });
        start(&config(&self.files(), &levels, &json!({})))
    }
}

#[test]
#[ignore = "it needs a broker, which is not in the build"]
fn updates_over_a_real_broker_survive_restarts_and_new_files() {
    let broker = RealBroker::start();
    let publisher = UpdatePublisherConfig::new(broker.address.clone(), PartitionRule::Mix);
    let publisher = UpdatePublisher::new(publisher).expect("a publisher");
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { broker, publisher, folder };
    let keys: Vec<i64> = (0..1_000).collect();
    setup.publish(&keys[..100], 2);
    std::thread::sleep(std::time::Duration::from_millis(50));
    write_files(&setup.files(), &keys, 3);
    set_time(&setup.files(), now_ms());
    std::thread::sleep(std::time::Duration::from_millis(50));
    setup.publish(&keys[50..150], 4);
    let server = setup.start();
    let want = |key: &i64| Some(if (50..150).contains(key) { 4 } else { 3 });
    let want: Vec<_> = keys.iter().map(want).collect();
    wait_until("what is newer than the files has come", || versions(&server, &keys) == want);
    wait_until_at_end(&server);
    assert_eq!(versions(&server, &keys), want, "and nothing that is older");
    drop(server);
    setup.publish(&keys[..10], 5);
    let server = setup.start();
    wait_until("what is new has come", || versions(&server, &keys[..10]) == vec![Some(5); 10]);
    wait_until_at_end(&server);
    assert_eq!(versions(&server, &keys[10..]), want[10..]);
    let counters = own(&server);
    assert!(counters.rows == 10, "what was committed comes once: {counters:?}");
    drop(server);
    write_files(&setup.files(), &keys, 6);
    set_time(&setup.files(), now_ms());
    // Where nothing is newer than a time, this broker says that all is.
    std::thread::sleep(std::time::Duration::from_millis(50));
    setup.publish(&keys[..200], 7);
    let want = |key: &i64| Some(if *key < 200 { 7 } else { 6 });
    let want: Vec<_> = keys.iter().map(want).collect();
    for _ in 0..2 {
        let server = setup.start();
        wait_until("what is new has come", || versions(&server, &keys) == want);
        wait_until_at_end(&server);
        assert_eq!(versions(&server, &keys), want, "and nothing that is older");
    }
}
