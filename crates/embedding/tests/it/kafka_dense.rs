//! Dense weights in several parts.

use terrace_embedding::{DensePart, DropReason, KeyKind};

use crate::kafka_broker::{KafkaBroker, PATIENCE, RawMessage, wait_until};
use crate::recording_sink::{RecordingSink, made_rows};

const MODEL: &str = "hps_dense.dcn";
const TABLE: &str = "hps_et.dcn.items";

/// More than three messages have room for.
fn weights(version: u64) -> Vec<u8> {
    (0..900_000u64).map(|at| (at * 31 + version) as u8).collect()
}

#[test]
fn weights_in_several_parts_arrive_whole_and_once() {
    let broker = KafkaBroker::start(&[(MODEL, 2), (TABLE, 2)]);
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 2)]);
    sink.lock().dense.insert(MODEL.into(), 1_000_000);
    let mut consumer = sink.consume(broker.consumer_config("g"));
    let publisher = broker.publisher();
    publisher.publish_dense(MODEL, 1, &weights(1)).expect("room");
    let (floats, rows) = made_rows(TABLE, &[1, 2], 2, 1);
    publisher.publish_rows(TABLE, KeyKind::I64, &[1, 2], &floats, 2).expect("room");
    publisher.publish_dense(MODEL, 2, &weights(2)).expect("room");
    publisher.publish_dense(MODEL, 2, &weights(2)).expect("room");
    publisher.publish_dense(MODEL, 1, &weights(1)).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    wait_until("the rows are there", || sink.has(&rows));
    wait_until("all parts are committed", || broker.committed("g", MODEL, 2)[0] == Some(16));
    consumer.stop();
    let given = sink.lock().dense_given.clone();
    let versions: Vec<u64> = given.iter().map(|(_, weights)| weights.version).collect();
    assert_eq!(versions, [1, 2]);
    for (topic, found) in given {
        assert_eq!(topic, MODEL);
        assert!(found.safetensors == weights(found.version), "version {}", found.version);
    }
    assert_eq!(consumer.counters().dense_versions, 2);
}

#[test]
fn weights_that_are_not_whole_are_not_committed() {
    let broker = KafkaBroker::start(&[(MODEL, 1)]);
    let whole = weights(1);
    let parts: Vec<_> = DensePart::split(1, &whole, 256 << 10).collect();
    let raw: Vec<_> = parts.iter().map(|part| RawMessage::new(part)).collect();
    broker.send_raw(MODEL, &raw[2..]);
    broker.send_raw(MODEL, &[RawMessage::new(b"garbage"), raw[0]]);
    let sink = RecordingSink::with_tables(&[]);
    sink.lock().dense.insert(MODEL.into(), 1_000_000);
    let mut consumer = sink.consume(broker.consumer_config("g"));
    wait_until("all messages have come", || consumer.counters().messages == 4);
    consumer.stop();
    assert_eq!(broker.committed("g", MODEL, 1), [None]);
    assert!(sink.lock().dense_given.is_empty());
    broker.send_raw(MODEL, &[raw[0], raw[1]]);
    let consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the weights are there", || sink.lock().dense_given.len() == 1);
    assert!(sink.lock().dense_given[0].1.safetensors == whole);
    wait_until("all is committed", || broker.committed("g", MODEL, 1) == [Some(6)]);
    assert_eq!(consumer.counters().dropped_for(DropReason::Short), 1);
}

#[test]
fn weights_that_a_model_refuses_for_now_are_given_again() {
    let broker = KafkaBroker::start(&[(MODEL, 1)]);
    let sink = RecordingSink::with_tables(&[]);
    sink.lock().dense.insert(MODEL.into(), 1_000_000);
    sink.fail(MODEL, 3);
    let consumer = sink.consume(broker.consumer_config("g"));
    let publisher = broker.publisher();
    publisher.publish_dense(MODEL, 5, &weights(5)).expect("room");
    publisher.publish_dense(MODEL, 6, &vec![1; 1_000_001]).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    wait_until("the weights are there", || sink.lock().dense_given.len() == 1);
    assert_eq!(sink.lock().dense_given[0].1.version, 5);
    let counters = consumer.counters();
    assert_eq!((counters.apply_errors, counters.retries), (3, 3));
    wait_until("what is too large is dropped", || {
        consumer.counters().dropped_for(DropReason::DenseBytes) == 4
    });
    wait_until("all is committed", || broker.committed("g", MODEL, 1) == [Some(8)]);
}
