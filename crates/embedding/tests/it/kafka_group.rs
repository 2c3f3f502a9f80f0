//! Consumers of one group, and of two.

use terrace_embedding::{KeyKind, UpdatePublisher};

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::recording_sink::{RecordingSink, Rows, made_rows};

const TABLE: &str = "hps_et.deepfm.items";

fn publish(publisher: &UpdatePublisher, keys: &[i64], seed: u32) -> Rows {
    let (floats, rows) = made_rows(TABLE, keys, 2, seed);
    publisher.publish_rows(TABLE, KeyKind::I64, keys, &floats, 2).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    rows
}

#[test]
fn two_of_one_group_share_the_partitions_and_one_takes_over() {
    let broker = KafkaBroker::start(&[(TABLE, 8)]);
    let publisher = broker.publisher();
    // Both write to the same store, as two servers of one Redis do.
    let sink = RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 2)]);
    let mut consumers = [(); 2].map(|()| sink.consume(broker.consumer_config("g")));
    let mut want = Rows::new();
    let mut keys = 0..;
    let mut publish_more = |want: &mut Rows| {
        let new: Vec<i64> = keys.by_ref().take(200).collect();
        want.extend(publish(&publisher, &new, 1));
        wait_until("the new rows are there", || sink.has(want));
    };
    wait_until("both have got messages", || {
        publish_more(&mut want);
        consumers.iter().all(|consumer| consumer.counters().messages > 0)
    });
    consumers[0].stop();
    let left = consumers[0].counters().messages;
    for _ in 0..3 {
        publish_more(&mut want);
    }
    assert_eq!(consumers[0].counters().messages, left);
}

#[test]
fn two_groups_get_everything_each() {
    let broker = KafkaBroker::start(&[(TABLE, 3)]);
    let sinks = [(); 2].map(|()| RecordingSink::with_tables(&[(TABLE, KeyKind::I64, 2)]));
    let consumers = [("one", &sinks[0]), ("two", &sinks[1])];
    let _consumers = consumers.map(|(group, sink)| sink.consume(broker.consumer_config(group)));
    let want = publish(&broker.publisher(), &(0..500).collect::<Vec<_>>(), 1);
    for sink in &sinks {
        wait_until("all rows are there", || sink.has(&want));
    }
}
