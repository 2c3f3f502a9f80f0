//! Starts by time. The broker does not know when messages were sent, so something between it and
//! the client answers that question.

use rdkafka::bindings::rd_kafka_resp_err_t as RespErr;
use rdkafka::types::RDKafkaApiKey;
use terrace_embedding::{KeyKind, StartAt, UpdateConsumerConfig};

use crate::kafka_broker::{KafkaBroker, RawMessage, wait_until};
use crate::offset_proxy::OffsetProxy;
use crate::recording_sink::{RecordingSink, Rows};

const TABLE: &str = "hps_et.dcn.items";
const LATER: &str = "hps_et.dcn.users";

/// One row of one float for each message; the key says which message it was.
fn payload(key: i64) -> Vec<u8> {
    let mut payload = [0x5254_4348u32.to_le_bytes(), 4u32.to_le_bytes()].concat();
    payload.extend(key.to_le_bytes());
    payload.extend(0.5f32.to_le_bytes());
    payload
}

fn rows(topic: &str, keys: &[i64]) -> Rows {
    keys.iter().map(|key| ((topic.into(), *key), vec![0.5f32.to_bits()])).collect()
}

/// Sends messages of partitions, keys and times.
fn send(broker: &KafkaBroker, proxy: &OffsetProxy, topic: &str, messages: &[(i32, i64, i64)]) {
    for (partition, _, at) in messages {
        proxy.add_time(topic, *partition, *at);
    }
    let payloads: Vec<_> = messages.iter().map(|(_, key, _)| payload(*key)).collect();
    let messages: Vec<_> = messages
        .iter()
        .zip(&payloads)
        .map(|((partition, _, at), payload)| RawMessage {
            partition: *partition,
            timestamp_ms: Some(*at),
            ..RawMessage::new(payload)
        })
        .collect();
    broker.send_raw(topic, &messages);
}

fn time_config(broker: &KafkaBroker, proxy: &OffsetProxy, time_ms: i64) -> UpdateConsumerConfig {
    UpdateConsumerConfig {
        brokers: proxy.address(),
        start: StartAt::Time(time_ms),
        ..broker.consumer_config("by_time")
    }
}

#[test]
fn a_start_by_time_reads_what_was_sent_since_and_commits_nothing() {
    let broker = KafkaBroker::start(&[(TABLE, 3)]);
    let proxy = OffsetProxy::start(&broker);
    let messages = [
        (0, 10, 1000),
        (0, 11, 2000),
        (0, 12, 3000),
        (1, 20, 1500),
        (1, 21, 900),
        (1, 22, 2500),
        // Behind one that counts, so it counts, too.
        (1, 23, 100),
        (2, 30, 1999),
    ];
    send(&broker, &proxy, TABLE, &messages);
    let tables = [(TABLE, KeyKind::I64, 1), (LATER, KeyKind::I64, 1)];
    let sink = RecordingSink::with_tables(&tables);
    let consumer = sink.consume(time_config(&broker, &proxy, 2000));
    let mut want = rows(TABLE, &[11, 12, 22, 23]);
    wait_until("what was sent since is there", || sink.has(&want));
    send(&broker, &proxy, TABLE, &[(0, 13, 4000), (1, 24, 4000), (2, 31, 4000)]);
    want.extend(rows(TABLE, &[13, 24, 31]));
    wait_until("what is sent after the start comes, too", || sink.has(&want));
    // A new topic takes the partitions away and brings them back.
    broker.cluster.create_topic(LATER, 1, 1).expect("a topic");
    send(&broker, &proxy, LATER, &[(0, 1, 5000)]);
    want.extend(rows(LATER, &[1]));
    wait_until("the new topic is read", || sink.has(&want));
    send(&broker, &proxy, TABLE, &[(2, 32, 6000)]);
    want.extend(rows(TABLE, &[32]));
    wait_until("the old one is read on", || sink.has(&want));
    let counters = consumer.counters();
    assert_eq!(counters.messages, 9, "nothing comes twice");
    assert_eq!(counters.commits, 0);
    drop(consumer);
    assert_eq!(broker.committed("by_time", TABLE, 3), [None; 3]);
    let again = RecordingSink::with_tables(&tables);
    let _consumer = again.consume(time_config(&broker, &proxy, 2000));
    wait_until("after a restart all of it comes again", || again.has(&want));
}

#[test]
fn a_start_by_time_waits_for_brokers_that_cannot_say_yet() {
    let broker = KafkaBroker::start(&[(TABLE, 1)]);
    let proxy = OffsetProxy::start(&broker);
    send(&broker, &proxy, TABLE, &[(0, 1, 1000), (0, 2, 2000)]);
    let refused = RespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    broker.cluster.request_errors(RDKafkaApiKey::ListOffsets, &[refused; 5]);
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 1)]);
    let consumer = sink.consume(time_config(&broker, &proxy, 1500));
    wait_until("what was sent since is there", || sink.has(&rows(TABLE, &[2])));
    assert!(consumer.counters().last_error.is_some());
}

#[test]
fn a_start_by_time_at_the_end_misses_nothing() {
    let broker = KafkaBroker::start(&[(TABLE, 1)]);
    let proxy = OffsetProxy::start(&broker);
    send(&broker, &proxy, TABLE, &[(0, 1, 1000)]);
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 1)]);
    let mut consumer = sink.consume(time_config(&broker, &proxy, 9000));
    wait_until("it has asked for a start", || proxy.questions() > 0);
    send(&broker, &proxy, TABLE, &[(0, 2, 9500)]);
    wait_until("what was sent since is there", || sink.has(&rows(TABLE, &[2])));
    consumer.stop();
    assert!(sink.has(&rows(TABLE, &[2])));
}

#[test]
fn a_consumer_stops_while_its_start_is_not_known() {
    let broker = KafkaBroker::start(&[(TABLE, 1)]);
    let proxy = OffsetProxy::start(&broker);
    let refused = RespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    broker.cluster.request_errors(RDKafkaApiKey::ListOffsets, &[refused; 10_000]);
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 1)]);
    let mut consumer = sink.consume(time_config(&broker, &proxy, 1500));
    wait_until("it says why it waits", || {
        consumer.counters().last_error.is_some_and(|error| error.contains("start by time"))
    });
    consumer.stop();
    assert!(!consumer.counters().is_running);
}
