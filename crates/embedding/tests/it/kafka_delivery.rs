//! What is published arrives, where it should and as it was.

use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use terrace_embedding::{KeyKind, PartitionRule, TopicTable, UpdateMessage};

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::recording_sink::{RecordingSink, Rows, made_rows};

const WIDE: &str = "hps_et.dcn.wide";
const DEEP: &str = "hps_et.dcn.deep";

#[test]
fn all_rows_that_are_published_arrive_as_they_were() {
    let broker = KafkaBroker::start(&[(WIDE, 4), (DEEP, 3)]);
    let tables = [(WIDE, KeyKind::U32, 3), (DEEP, KeyKind::I64, 16)];
    let sink = RecordingSink::with_tables(&tables);
    let consumer = sink.consume(broker.consumer_config("g"));
    let publisher = broker.publisher();
    let mut want = Rows::new();
    for (topic, key_kind, dim) in tables {
        let own = |key: i64| match key_kind {
            KeyKind::U32 => key * 1_000_000,
            KeyKind::I64 => (key - 1500) << 40,
        };
        let keys: Vec<i64> = (0..3000).map(own).collect();
        let (floats, rows) = made_rows(topic, &keys, dim, 1);
        publisher.publish_rows(topic, key_kind, &keys, &floats, dim).expect("room");
        want.extend(rows);
    }
    publisher.flush(PATIENCE).expect("delivered");
    wait_until("all rows are there", || sink.has(&want));
    wait_until("nothing is behind", || {
        let counters = consumer.counters();
        let [deep, wide] = counters.topics.as_slice() else { return false };
        [deep, wide].iter().all(|topic| topic.messages == 0 && topic.age_ms.is_some())
    });
    // They are counted when they are written.
    wait_until("all rows are counted", || consumer.counters().rows >= 6000);
    let counters = consumer.counters();
    assert_eq!(counters.rows, 6000);
    assert_eq!(counters.dropped.iter().sum::<u64>(), 0);
    assert!(counters.is_connected && counters.is_running, "{counters:?}");
    assert!(sink.lock().largest_delivery <= 500);
}

#[test]
fn a_key_lies_in_the_partition_of_its_group() {
    let broker = KafkaBroker::start(&[(DEEP, 3)]);
    let keys: Vec<i64> = (0..9000).collect();
    let (floats, want) = made_rows(DEEP, &keys, 32, 1);
    let publisher = broker.publisher();
    publisher.publish_rows(DEEP, KeyKind::I64, &keys, &floats, 32).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    let consumer: BaseConsumer =
        broker.client().set("group.id", "raw").create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_range(DEEP, 0, 2);
    list.set_all_offsets(Offset::Beginning).expect("offsets");
    consumer.assign(&list).expect("partitions");
    let mut found = Rows::new();
    let mut longest = 0;
    while found.len() < want.len() {
        let message = consumer.poll(PATIENCE).expect("a message").expect("no error");
        assert_eq!(message.key(), None);
        let payload = message.payload().expect("a payload");
        longest = longest.max(payload.len());
        let UpdateMessage::Rows(rows) = UpdateMessage::decode(payload, KeyKind::I64).expect("rows")
        else {
            panic!("a beacon");
        };
        for (key, row) in rows.iter() {
            let group = PartitionRule::Mix.partition(key, 8);
            assert_eq!(message.partition(), (group % 3) as i32, "key {key}");
            let bits = row.map(f32::to_bits).collect();
            assert_eq!(found.insert((DEEP.into(), key), bits), None, "key {key} comes once");
        }
    }
    assert_eq!(found, want);
    // A group has about 1125 rows of 136 bytes, so it needs no second message.
    assert!((100_000..=256 << 10).contains(&longest), "{longest}");
}

#[test]
fn the_last_value_that_was_published_stays() {
    let broker = KafkaBroker::start(&[(DEEP, 2)]);
    let sink = RecordingSink::with_tables(&[(DEEP, KeyKind::I64, 2)]);
    let consumer = sink.consume(broker.consumer_config("g"));
    let publisher = broker.publisher();
    let keys: Vec<i64> = (0..10).collect();
    let mut last = Rows::new();
    for round in 0..300 {
        let (floats, rows) = made_rows(DEEP, &keys, 2, round);
        publisher.publish_rows(DEEP, KeyKind::I64, &keys, &floats, 2).expect("room");
        last = rows;
    }
    publisher.flush(PATIENCE).expect("delivered");
    // One call with the same key many times over, too.
    let many = vec![3; 50];
    let floats: Vec<f32> = (0..100).map(|at| at as f32).collect();
    publisher.publish_rows(DEEP, KeyKind::I64, &many, &floats, 2).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    last.insert((DEEP.into(), 3), [98.0f32, 99.0].map(f32::to_bits).to_vec());
    wait_until("the last values are there", || sink.has(&last));
    let messages = consumer.counters().messages;
    wait_until("all is committed", || {
        let committed = broker.committed("g", DEEP, 2);
        committed.iter().flatten().sum::<i64>() == messages as i64
    });
    assert!(sink.has(&last));
}

#[test]
fn rows_of_another_size_come_after_those_before_them() {
    let broker = KafkaBroker::start(&[(DEEP, 1)]);
    let publisher = broker.publisher();
    for (dim, seed) in [(2, 1), (2, 2), (2, 3), (4, 4), (4, 5)] {
        let (floats, _) = made_rows(DEEP, &[1], dim, seed);
        publisher.publish_rows(DEEP, KeyKind::I64, &[1], &floats, dim).expect("room");
        publisher.flush(PATIENCE).expect("delivered");
    }
    let sink = RecordingSink::with_tables(&[(DEEP, KeyKind::I64, 2)]);
    let wider = TopicTable { key_kind: KeyKind::I64, dim: 4 };
    sink.lock().next_tables.insert(DEEP.into(), (3, wider));
    let consumer = sink.consume(broker.consumer_config("g"));
    let (_, want) = made_rows(DEEP, &[1], 4, 5);
    wait_until("the wider row is there", || sink.has(&want));
    let dims = sink.lock().dims[DEEP].clone();
    assert!(dims.contains(&2) && dims.is_sorted(), "{dims:?}");
    assert_eq!(consumer.counters().dropped.iter().sum::<u64>(), 0);
}

#[test]
fn a_topic_that_is_created_later_is_found() {
    let broker = KafkaBroker::start(&[(WIDE, 1)]);
    let tables = [(WIDE, KeyKind::I64, 2), (DEEP, KeyKind::I64, 2)];
    let sink = RecordingSink::with_tables(&tables);
    let _consumer = sink.consume(broker.consumer_config("g"));
    let publisher = broker.publisher();
    let mut want = Rows::new();
    for (topic, key_kind, dim) in tables {
        // The second topic is one that the broker creates when it is asked for.
        let (floats, rows) = made_rows(topic, &[1, 2, 3], dim, 1);
        publisher.publish_rows(topic, key_kind, &[1, 2, 3], &floats, dim).expect("room");
        publisher.flush(PATIENCE).expect("delivered");
        want.extend(rows);
        wait_until("the rows of the topic are there", || sink.has(&want));
    }
}
