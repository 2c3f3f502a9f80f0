//! Messages that are no updates, sinks that fail, and brokers that refuse.

use std::time::Duration;

use rdkafka::bindings::rd_kafka_resp_err_t as RespErr;
use rdkafka::types::RDKafkaApiKey;
use terrace_embedding::{
    DropReason, FeedError, KeyKind, PartitionRule, UpdateConsumer, UpdateConsumerConfig,
    UpdatePublisher, UpdatePublisherConfig,
};

use crate::kafka_broker::{KafkaBroker, PATIENCE, RawMessage, wait_until};
use crate::recording_sink::{RecordingSink, Rows, made_rows};

const TABLE: &str = "hps_et.dlrm.items";
const OTHER: &str = "hps_et.dlrm.users";
const UNKNOWN: &str = "hps_et.dlrm.nobody_knows";

/// A payload of one row.
fn payload(value_bytes: u32, key: i64, row: &[f32]) -> Vec<u8> {
    let mut payload = [0x5254_4348u32.to_le_bytes(), value_bytes.to_le_bytes()].concat();
    payload.extend(key.to_le_bytes());
    payload.extend(row.iter().flat_map(|float| float.to_le_bytes()));
    payload
}

#[test]
fn messages_that_are_no_updates_are_counted_and_passed_over() {
    let broker = KafkaBroker::start(&[(TABLE, 1), (UNKNOWN, 1)]);
    let good = |key: i64| payload(8, key, &[key as f32, 0.5]);
    let good: Vec<_> = (0..9).map(good).collect();
    let wrong_magic = [b"hctr".as_slice(), &good[0][4..]].concat();
    let beacon = &good[0][..8];
    let no_multiple = payload(6, 1, &[1.0, 2.0]);
    let trailing = [good[0].as_slice(), &[1]].concat();
    let wide = payload(12, 1, &[1.0, 2.0, 3.0]);
    let garbage = [
        RawMessage::new(&[]),
        RawMessage { key: Some(b"key"), ..RawMessage::new(&good[0]) },
        RawMessage::new(b"HCTR"),
        RawMessage::new(&wrong_magic),
        RawMessage::new(&no_multiple),
        RawMessage::new(&trailing),
        RawMessage::new(&wide),
        RawMessage::new(beacon),
    ];
    let mut messages = vec![RawMessage::new(&good[8])];
    for (garbage, good) in garbage.iter().zip(&good) {
        messages.extend([*garbage, RawMessage::new(good)]);
    }
    broker.send_raw(TABLE, &messages);
    broker.send_raw(UNKNOWN, &[RawMessage::new(&good[0]), RawMessage::new(b"anything")]);
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 2)]);
    let consumer = sink.consume(broker.consumer_config("g"));
    let row = |key: i64| ((TABLE.into(), key), [key as f32, 0.5].map(f32::to_bits).to_vec());
    let want: Rows = (0..9).map(row).collect();
    wait_until("the good rows are there", || sink.has(&want));
    wait_until("all is committed, garbage and all", || {
        broker.committed("g", TABLE, 1) == [Some(17)]
            && broker.committed("g", UNKNOWN, 1) == [Some(2)]
    });
    let counters = consumer.counters();
    let dropped = DropReason::ALL.map(|reason| (reason.name(), counters.dropped_for(reason)));
    let want = [
        ("keyed", 1),
        ("short", 2),
        ("magic", 1),
        ("value_bytes", 1),
        ("trailing", 1),
        ("dim", 1),
        ("unknown_topic", 2),
        ("dense_part", 0),
        ("dense_bytes", 0),
        ("dense_hash", 0),
    ];
    assert_eq!(dropped, want);
    assert_eq!((counters.beacons, counters.messages), (1, 19));
}

#[test]
fn a_table_that_fails_is_tried_again_and_does_not_hold_up_others() {
    let broker = KafkaBroker::start(&[(TABLE, 2), (OTHER, 2)]);
    let tables = [(TABLE, KeyKind::I64, 4), (OTHER, KeyKind::I64, 4)];
    let sink = RecordingSink::with_tables(&tables);
    sink.fail(TABLE, usize::MAX);
    let consumer = sink.consume(broker.consumer_config("g"));
    let publisher = broker.publisher();
    let mut want = Rows::new();
    let keys: Vec<i64> = (0..2000).collect();
    for round in 0..3 {
        for (topic, key_kind, dim) in tables {
            let (floats, rows) = made_rows(topic, &keys, dim, round);
            publisher.publish_rows(topic, key_kind, &keys, &floats, dim).expect("room");
            want.extend(rows);
        }
        publisher.flush(PATIENCE).expect("delivered");
    }
    let others: Rows = want.clone().into_iter().filter(|((topic, _), _)| topic == OTHER).collect();
    wait_until("the other table has its rows", || sink.has(&others));
    wait_until("the table was tried several times", || consumer.counters().retries > 4);
    assert_eq!(broker.committed("g", TABLE, 2), [None, None]);
    let received = consumer.counters().messages;
    for round in 3..20 {
        let (floats, rows) = made_rows(TABLE, &keys, 4, round);
        publisher.publish_rows(TABLE, KeyKind::I64, &keys, &floats, 4).expect("room");
        want.extend(rows);
    }
    let (floats, rows) = made_rows(OTHER, &keys, 4, 20);
    publisher.publish_rows(OTHER, KeyKind::I64, &keys, &floats, 4).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    want.extend(rows.clone());
    wait_until("the other table has its new rows", || sink.has(&rows));
    let since = consumer.counters().messages - received;
    assert_eq!(since, 8, "what cannot be applied is not read either");
    sink.fail(TABLE, 3);
    wait_until("both have their rows", || sink.has(&want));
    let counters = consumer.counters();
    assert!(counters.apply_errors > 4, "{counters:?}");
    wait_until("all is committed", || {
        let committed = |topic| broker.committed("g", topic, 2).iter().flatten().sum::<i64>();
        committed(TABLE) + committed(OTHER) == consumer.counters().messages as i64
    });
}

#[test]
fn what_brokers_refuse_comes_back_with_topic_and_reason() {
    let broker = KafkaBroker::start(&[(TABLE, 1)]);
    let publisher = broker.publisher();
    let too_large = RespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    broker.cluster.request_errors(RDKafkaApiKey::Produce, &[too_large]);
    publisher.publish_rows(TABLE, KeyKind::I64, &[1], &[1.0], 1).expect("room");
    match publisher.flush(PATIENCE) {
        Err(FeedError::NotDelivered(failures)) => {
            let [failure] = failures.as_slice() else { panic!("{failures:?}") };
            assert_eq!((failure.topic.as_str(), failure.messages), (TABLE, 1));
            assert!(failure.reason.to_lowercase().contains("too large"), "{failure}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(publisher.flush(PATIENCE), Ok(()), "a failure is reported once");
    publisher.publish_rows(TABLE, KeyKind::I64, &[1], &[1.0], 1).expect("room");
    assert_eq!(publisher.flush(PATIENCE), Ok(()));
}

#[test]
fn a_publisher_waits_for_brokers_only_so_long() {
    let broker = KafkaBroker::start(&[(TABLE, 1)]);
    let brokers = broker.cluster.bootstrap_servers();
    let publisher = UpdatePublisher::new(UpdatePublisherConfig {
        wait_most: Duration::from_millis(300),
        queue_bytes_most: 1 << 20,
        ..UpdatePublisherConfig::new(brokers, PartitionRule::Modulo)
    });
    let publisher = publisher.expect("a publisher");
    let publish = |key: i64| publisher.publish_rows(TABLE, KeyKind::I64, &[key], &[1.0], 1);
    publish(1).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    broker.cluster.broker_down(-1).expect("a broker");
    publish(2).expect("its partitions are known");
    match publisher.flush(Duration::from_millis(300)) {
        Err(FeedError::Undelivered { messages: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    match publisher.publish_rows(OTHER, KeyKind::I64, &[1], &[1.0], 1) {
        Err(FeedError::Partitions { topic, .. }) => assert_eq!(topic, OTHER),
        other => panic!("{other:?}"),
    }
    let large = vec![0.5; 60_000];
    let keys: Vec<i64> = (0..30_000).map(|key| key * 8).collect();
    let full =
        (0..10).find_map(|_| publisher.publish_rows(TABLE, KeyKind::I64, &keys, &large, 2).err());
    assert!(matches!(full, Some(FeedError::QueueFull { .. })), "{full:?}");
    broker.cluster.broker_up(-1).expect("a broker");
}

#[test]
fn what_cannot_be_published_or_consumed_is_refused_at_once() {
    let broker = KafkaBroker::start(&[(TABLE, 1)]);
    let publisher = broker.publisher();
    let shape = FeedError::Shape { keys: 2, dim: 2, floats: 3 };
    assert_eq!(publisher.publish_rows(TABLE, KeyKind::I64, &[1, 2], &[0.0; 3], 2), Err(shape));
    let shape = FeedError::Shape { keys: 2, dim: 0, floats: 0 };
    assert_eq!(publisher.publish_rows(TABLE, KeyKind::I64, &[1, 2], &[], 0), Err(shape));
    let key = FeedError::Key { key: -5, key_kind: KeyKind::U32 };
    assert_eq!(publisher.publish_rows(TABLE, KeyKind::U32, &[1, -5], &[0.0; 2], 1), Err(key));
    assert_eq!(publisher.publish_dense("hps_dense.m", 1, &[]), Err(FeedError::NoWeights));
    for message_bytes_most in [0, 1023, 1 << 30] {
        let brokers = broker.cluster.bootstrap_servers();
        let config = UpdatePublisherConfig::new(brokers, PartitionRule::Mix);
        let config = UpdatePublisherConfig { message_bytes_most, ..config };
        assert!(matches!(UpdatePublisher::new(config).err(), Some(FeedError::Config(_))));
    }
    let good = broker.consumer_config("g");
    for config in [
        UpdateConsumerConfig { topic_patterns: vec![], ..good.clone() },
        UpdateConsumerConfig { max_batch_size: 0, ..good.clone() },
        UpdateConsumerConfig { max_commit_interval: 0, ..good.clone() },
        UpdateConsumerConfig { receive_buffer_size: 1 << 40, ..good.clone() },
        UpdateConsumerConfig { topic_patterns: vec!["^(".into()], ..good },
    ] {
        let sink = RecordingSink::with_tables(&[]);
        let started = UpdateConsumer::start(config.clone(), sink);
        assert!(matches!(started.err(), Some(FeedError::Config(_))), "{config:?}");
    }
}
