//! Brokers that are down, at the start and later.

use terrace_embedding::{KeyKind, UpdatePublisher};

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::recording_sink::{RecordingSink, Rows, made_rows};

const TABLE: &str = "hps_et.dcnv2.items";

fn publish(publisher: &UpdatePublisher, keys: &[i64], seed: u32) -> Rows {
    let (floats, rows) = made_rows(TABLE, keys, 2, seed);
    publisher.publish_rows(TABLE, KeyKind::I64, keys, &floats, 2).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    rows
}

#[test]
fn a_consumer_waits_for_a_broker_that_is_down_at_the_start() {
    let broker = KafkaBroker::start(&[(TABLE, 2)]);
    let want = publish(&broker.publisher(), &(0..100).collect::<Vec<_>>(), 1);
    broker.cluster.broker_down(-1).expect("a broker");
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 2)]);
    let consumer = sink.consume(broker.consumer_config("g"));
    wait_until("it says why it does nothing", || consumer.counters().last_error.is_some());
    assert!(!consumer.counters().is_connected);
    broker.cluster.broker_up(-1).expect("a broker");
    wait_until("the rows are there", || sink.has(&want));
    wait_until("it says that it is connected", || consumer.counters().is_connected);
}

#[test]
fn a_consumer_catches_up_after_an_outage() {
    let broker = KafkaBroker::start(&[(TABLE, 2)]);
    let publisher = broker.publisher();
    let mut want = publish(&publisher, &(0..100).collect::<Vec<_>>(), 1);
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 2)]);
    let consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the first rows are there", || sink.has(&want));
    for round in 2..4 {
        broker.cluster.broker_down(-1).expect("a broker");
        wait_until("it says that nobody answers", || !consumer.counters().is_connected);
        let keys: Vec<i64> = (50..150).collect();
        let (floats, rows) = made_rows(TABLE, &keys, 2, round);
        publisher.publish_rows(TABLE, KeyKind::I64, &keys, &floats, 2).expect("room");
        want.extend(rows);
        broker.cluster.broker_up(-1).expect("a broker");
        publisher.flush(PATIENCE).expect("delivered");
        wait_until("the new rows are there", || sink.has(&want));
        wait_until("it says that it is connected", || consumer.counters().is_connected);
    }
    wait_until("all is committed", || {
        let committed = broker.committed("g", TABLE, 2);
        committed.iter().flatten().sum::<i64>() == consumer.counters().messages as i64
    });
}

#[test]
fn a_consumer_stops_while_no_broker_answers() {
    let broker = KafkaBroker::start(&[(TABLE, 2)]);
    let want = publish(&broker.publisher(), &(0..100).collect::<Vec<_>>(), 1);
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 2)]);
    let mut consumer = sink.consume(broker.consumer_config("g"));
    wait_until("the rows are there", || sink.has(&want));
    broker.cluster.broker_down(-1).expect("a broker");
    wait_until("it says that nobody answers", || !consumer.counters().is_connected);
    consumer.stop();
    assert!(!consumer.counters().is_running);
    broker.cluster.broker_up(-1).expect("a broker");
}
