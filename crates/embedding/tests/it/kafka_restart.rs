//! A consumer that ends and comes back: nothing is lost, and what was committed does not come
//! again.

use std::time::Duration;

use rdkafka::bindings::rd_kafka_resp_err_t as RespErr;
use rdkafka::types::RDKafkaApiKey;
use terrace_embedding::{KeyKind, UpdatePublisher};

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::recording_sink::{RecordingSink, Rows, made_rows};

const TABLE: &str = "hps_et.wdl.items";
const PARTITIONS: i32 = 3;

fn publish(publisher: &UpdatePublisher, keys: &[i64], seed: u32) -> Rows {
    let (floats, rows) = made_rows(TABLE, keys, 4, seed);
    publisher.publish_rows(TABLE, KeyKind::I64, keys, &floats, 4).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    rows
}

fn table() -> std::sync::Arc<RecordingSink> {
    RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 4)])
}

#[test]
fn a_restart_goes_on_after_what_was_committed() {
    let broker = KafkaBroker::start(&[(TABLE, PARTITIONS)]);
    let publisher = broker.publisher();
    let first = publish(&publisher, &(0..100).collect::<Vec<_>>(), 1);
    let sink = table();
    let mut consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the first rows are there", || sink.has(&first));
    consumer.stop();
    let messages = consumer.counters().messages as i64;
    assert!(!consumer.counters().is_running);
    wait_until("the stop has committed what was applied", || {
        broker.committed("g", TABLE, PARTITIONS).iter().flatten().sum::<i64>() == messages
    });
    let second = publish(&publisher, &(50..150).collect::<Vec<_>>(), 2);
    let sink = table();
    let consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the second rows are there, and no others", || sink.has(&second));
    wait_until("all is committed", || {
        let committed = broker.committed("g", TABLE, PARTITIONS);
        let since = consumer.counters().messages as i64;
        committed.iter().flatten().sum::<i64>() == messages + since
    });
    assert!(sink.has(&second));
}

#[test]
fn what_could_not_be_applied_before_a_restart_comes_again() {
    let broker = KafkaBroker::start(&[(TABLE, PARTITIONS)]);
    let publisher = broker.publisher();
    let want = publish(&publisher, &(0..2000).collect::<Vec<_>>(), 1);
    let failing = table();
    failing.fail(TABLE, usize::MAX);
    let mut consumer = failing.consume(broker.consumer_config("g"));
    wait_until("it was tried again", || consumer.counters().retries > 1);
    consumer.stop();
    assert_eq!(consumer.counters().commits, 0);
    assert_eq!(broker.committed("g", TABLE, PARTITIONS), [None; PARTITIONS as usize]);
    let sink = table();
    let _consumer = sink.consume(broker.consumer_config("g"));
    wait_until("all rows are there", || sink.has(&want));
}

#[test]
fn what_was_applied_and_not_committed_comes_again() {
    let broker = KafkaBroker::start(&[(TABLE, PARTITIONS)]);
    let publisher = broker.publisher();
    let want = publish(&publisher, &(0..300).collect::<Vec<_>>(), 1);
    let refused = RespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    broker.cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refused; 10_000]);
    let sink = table();
    let mut consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the rows are there", || sink.has(&want));
    wait_until("a commit was refused", || consumer.counters().commit_errors > 1);
    consumer.stop();
    assert_eq!(consumer.counters().commits, 0);
    broker.cluster.clear_request_errors(RDKafkaApiKey::OffsetCommit);
    let again = table();
    let consumer = again.consume(broker.consumer_config("g"));
    wait_until("the rows are there again", || again.has(&want));
    wait_until("they are committed", || consumer.counters().commits > 0);
}

#[test]
fn a_refused_commit_is_sent_again() {
    let broker = KafkaBroker::start(&[(TABLE, PARTITIONS)]);
    let publisher = broker.publisher();
    let want = publish(&publisher, &(0..300).collect::<Vec<_>>(), 1);
    let refused = RespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    broker.cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refused; 3]);
    let sink = table();
    let consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the rows are there", || sink.has(&want));
    wait_until("all is committed", || {
        let committed = broker.committed("g", TABLE, PARTITIONS);
        committed.iter().flatten().sum::<i64>() == consumer.counters().messages as i64
    });
    assert_eq!(consumer.counters().commit_errors, 3);
}

#[test]
fn a_stop_while_a_sink_works_loses_nothing() {
    let broker = KafkaBroker::start(&[(TABLE, PARTITIONS)]);
    let publisher = broker.publisher();
    let want = publish(&publisher, &(0..3000).collect::<Vec<_>>(), 1);
    let sink = table();
    sink.hold(true);
    let mut consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the sink was called", || sink.lock().held == 1);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| consumer.stop());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!stopping.is_finished(), "a stop waits for the sink");
        sink.hold(false);
        stopping.join().expect("no panic");
    });
    let before = sink.lock().rows.len();
    assert!(before < want.len(), "one delivery, not all");
    let _consumer = sink.consume(broker.consumer_config("g"));
    wait_until("all rows are there", || sink.has(&want));
}
